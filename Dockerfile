FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml requirements.lock README.md LICENSE ./
RUN python -m venv /ledger && /ledger/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY ledger ledger
COPY topics topics
COPY projections projections
RUN /ledger/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
COPY --from=build /ledger /ledger
RUN useradd --system --uid 10001 --no-create-home ledger
USER 10001
ENV PATH=/ledger/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["quota-ledger"]
CMD ["worker"]

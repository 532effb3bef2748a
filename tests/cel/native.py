"""The library's own evaluator, in a process of its own: it may abort. Expressions in, outcomes out, as JSON lines."""

from __future__ import annotations

import json
import sys

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

ATTRIBUTES = {
    "gpu.nvidia.com": {
        "type": "gpu",
        "productName": "NVIDIA H100 80GB HBM3",
        "index": 3,
        "numa": 0,
        "healthy": True,
        "broken": False,
        "models": ["h100", "hopper"],
        "lanes": [1, 3, 7],
    }
}


def main() -> None:
    kinds = cel.Type
    environment = cel.NewEnv(
        variables={"device.attributes": kinds.Map(kinds.STRING, kinds.Map(kinds.STRING, kinds.DYN))},
        extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional(), ext_bindings.ExtBindings()],
    )
    data = {"device.attributes": ATTRIBUTES}
    for line in sys.stdin:
        expression = json.loads(line)
        try:
            compiled = environment.compile(expression)
        except RuntimeError as error:
            print(json.dumps(["compile", str(error)[:200]]), flush=True)
            continue
        value = compiled.eval(data=data)
        if value.type() == kinds.BOOL:
            print(json.dumps(["value", value.value()]), flush=True)
        else:
            print(json.dumps(["error", str(value.type())]), flush=True)


if __name__ == "__main__":
    main()

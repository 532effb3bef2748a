"""Devices at scale: 1,000 nodes with 8 GPUs in dynamic MIG, 208,000 devices in 9,000 slices.

    python benchmarks/devices.py [NODES]

Prints one line per figure: building the index, the first charge of a new template, a repeated one, an update of one
slice, the first charge after an update, and the memory of the index.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec

from ledger.devices.index import DeviceIndex
from ledger.devices.snapshot import load_index, save_index
from ledger.objects.decoding import decode_object

GPUS = 8
PROFILES = (
    # name, memory in Mi, multiprocessors, placements (start, size)
    ("1g.10gb", 9728, 14, [(start, 1) for start in range(7)]),
    ("1g.10gb+me", 9728, 14, [(start, 1) for start in range(7)]),
    ("1g.20gb", 19968, 14, [(0, 2), (2, 2), (4, 2), (6, 2)]),
    ("2g.20gb", 19968, 28, [(0, 2), (2, 2), (4, 2)]),
    ("3g.40gb", 40192, 42, [(0, 4), (4, 4)]),
    ("4g.40gb", 40192, 56, [(0, 4)]),
    ("7g.80gb", 80896, 98, [(0, 8)]),
)
KINDS = {"type": "string", "profile": "string", "uuid": "string", "parentUUID": "string", "productName": "string"}


def amounts(memory: int, processors: int, slices: range) -> dict[str, Any]:
    found = {
        "memory": f"{memory}Mi", "multiprocessors": str(processors), "copy-engines": str(processors // 14),
        "decoders": "0", "encoders": "0", "jpeg-engines": "0", "ofa-engines": "0",
    }  # fmt: skip
    found.update({f"memory-slice-{number}": "1" for number in slices})
    return {name: {"value": value} for name, value in found.items()}


def device(node: int, gpu: int, name: str, profile: str | None, memory: int, processors: int, slices: range) -> Any:
    uuid = f"GPU-{node:06x}-{gpu}"
    attributes: dict[str, Any] = {
        "addressingMode": {"string": "None"}, "architecture": {"string": "Ampere"}, "brand": {"string": "Nvidia"},
        "cudaComputeCapability": {"version": "8.0.0"}, "cudaDriverVersion": {"version": "13.0.0"},
        "driverVersion": {"version": "580.126.20"}, "productName": {"string": "NVIDIA A100-SXM4-80GB"},
        "resource.kubernetes.io/numaNode": {"int": gpu // 4},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{7 + 8 * gpu:02x}:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{16 * (gpu // 2):02x}"},
        "type": {"string": "mig" if profile else "gpu"},
    }  # fmt: skip
    attributes.update(
        {"profile": {"string": profile}, "parentUUID": {"string": uuid}} if profile else {"uuid": {"string": uuid}}
    )
    capacity = {"memory": {"value": f"{memory}Mi"}, "multiprocessors": {"value": str(processors)}}
    capacity.update({name: {"value": "1"} for name in ("copyEngines", "decoders", "encoders", "jpegEngines")})
    consumes = {"counterSet": f"gpu-{gpu}-counter-set", "counters": amounts(memory, processors, slices)}
    return {"name": name, "attributes": attributes, "capacity": capacity, "consumesCounters": [consumes]}


def gpu_devices(node: int, gpu: int) -> list[Any]:
    found = [device(node, gpu, f"gpu-{gpu}", None, 80896, 98, range(8))]
    for number, (profile, memory, processors, placements) in enumerate(PROFILES):
        for start, size in placements:
            label = profile.replace(".", "").replace("+", "-")
            name = f"gpu-{gpu}-mig-{label}-{number}-{start}"
            found.append(device(node, gpu, name, profile, memory, processors, range(start, start + size)))
    return found


def slice_of(node: int, name: str, content: Any, generation: int = 1) -> bytes:
    pool = {"name": f"node-{node:04d}", "generation": generation, "resourceSliceCount": GPUS + 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": f"node-{node:04d}", "pool": pool, **content}
    return json.dumps(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"node-{node:04d}-{name}"},
            "spec": spec,
        }
    ).encode()


def slices(nodes: int) -> Iterator[bytes]:
    for node in range(nodes):
        sets = [{"name": f"gpu-{gpu}-counter-set", "counters": amounts(80896, 98, range(8))} for gpu in range(GPUS)]
        yield slice_of(node, "counters", {"sharedCounters": sets})
        for gpu in range(GPUS):
            yield slice_of(node, f"gpu-{gpu}", {"devices": gpu_devices(node, gpu)})


def thing(kind: str, name: str, spec: Any, namespace: str | None = None) -> Any:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    version = "config.kueue.x-k8s.io/v1beta2" if kind == "Configuration" else "resource.k8s.io/v1"
    version = "kueue.x-k8s.io/v1beta2" if kind == "Workload" else version
    body = {"apiVersion": version, "kind": kind, "metadata": metadata}
    return decode_object(msgspec.json.encode({**body, **(spec if kind == "Configuration" else {"spec": spec})}))


def configuration() -> Any:
    fence = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    source = {"counter": {"name": "memory", "driver": "gpu.nvidia.com", "deviceSelector": fence}}
    names = ["gpu.nvidia.com", "mig.nvidia.com"]
    mappings = [{"name": "gpu.memory", "deviceClassNames": names, "sources": [source]}]
    return thing("Configuration", "kueue", {"resources": {"deviceClassMappings": mappings}})


def template(name: str, expression: str, count: int = 1) -> Any:
    exactly = {"deviceClassName": "mig.nvidia.com", "count": count, "selectors": [{"cel": {"expression": expression}}]}
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    return thing("ResourceClaimTemplate", name, spec, "team")


def workload(name: str, of: str) -> Any:
    entry = {"name": "c", "resourceClaimTemplateName": of}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [], "resourceClaims": [entry]}}}
    return thing("Workload", name, {"podSets": [pod_set]}, "team")


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = act()
    return (time.perf_counter() - start) * 1000, answer


def processor(act: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall and processor milliseconds: on a busy machine they differ."""
    start = time.process_time()
    took, answer = timed(act)
    return took, (time.process_time() - start) * 1000, answer


def resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    index = DeviceIndex()
    for kind in ("gpu", "mig"):
        text = f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'"
        index.apply(None, thing("DeviceClass", f"{kind}.nvidia.com", {"selectors": [{"cel": {"expression": text}}]}))
    settings = configuration()
    attribute = "device.attributes['gpu.nvidia.com']"
    templates = {
        "profile": template("profile", f"{attribute}.profile == '1g.10gb'"),
        "starts": template("starts", f"{attribute}.profile.startsWith('1g')"),
        "seven": template("seven", f"{attribute}.profile == '1g.20gb'", 4),
        "dynamic": template("dynamic", f"{attribute}.exists(k, k == 'profile')"),
        "none": template("none", f"{attribute}.profile == '9g.90gb'"),
        "spread": template("spread", f"{attribute}.profile == '7g.80gb'", 9),
    }
    before = resident()
    decoding, building = 0.0, 0.0
    for raw in slices(nodes):
        took, found = timed(lambda raw=raw: decode_object(raw))
        decoding += took
        took, _ = timed(lambda found=found: index.apply(None, found))
        building += took
    gc.collect()
    devices = sum(len(record.devices) for record in index.slices.values())
    print(f"{devices} devices in {len(index.slices)} slices: decode {decoding:.0f} ms, index {building:.0f} ms")
    print(
        f"memory of the index {resident() - before:.0f} MiB ({(resident() - before) * 1024 / devices:.2f} KiB a device)"
    )
    for name, found in templates.items():
        index.apply(None, found)
        first, cpu, answer = processor(lambda name=name: index.charges(workload("w-" + name, name), settings))
        again, _ = timed(lambda name=name: index.charges(workload("v-" + name, name), settings))
        said = getattr(answer, "code", None) or dict(answer.pod_sets[0].added)
        print(f"template {name}: first charge {first:.1f} ms (processor {cpu:.1f}), repeated {again:.3f} ms: {said}")
    for number, label in ((nodes // 2, "one slice republished"), (nodes // 3, "another slice republished")):
        devices_now = gpu_devices(number, 3)
        devices_now[1]["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        found = decode_object(slice_of(number, "gpu-3", {"devices": devices_now}))
        took, touched = timed(lambda found=found: index.apply(None, found))
        print(f"{label}: {took:.2f} ms, {len(touched)} workloads touched")
        for name in ("profile", "spread"):
            took, _ = timed(lambda name=name: index.charges(workload("w-" + name, name), settings))
            print(f"  charge of {name} after it {took:.3f} ms")
    took, saved = timed(lambda: save_index(index))
    again, _ = timed(lambda: load_index(saved))
    print(f"saved {len(saved) / 2**20:.1f} MiB in {took:.0f} ms, loaded in {again:.0f} ms")


if __name__ == "__main__":
    main()

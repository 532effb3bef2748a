"""JSON Schema (2020-12) of msgspec types: what the decoders accept, told to others.

msgspec can write schemas itself, but not of structs with defaults of our own scalar types; this follows its public
description of types (`msgspec.inspect`) instead. Defaults are left out: they are what an API server fills in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import inspect

Schema = dict[str, Any]
ScalarSchema = Callable[[type], Schema]

_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}


class SchemaWriter:
    """Writes schemas of types and collects the definitions of the structs that they are made of."""

    def __init__(self, scalar: ScalarSchema) -> None:
        self._scalar = scalar
        self._types: dict[str, type] = {}
        self.definitions: dict[str, Schema] = {}

    def reference(self, kind: Any) -> Schema:
        """The schema of a type; structs become references into `definitions`."""
        return self._schema(inspect.type_info(kind))

    def _schema(self, info: inspect.Type) -> Schema:
        if isinstance(info, inspect.Metadata):
            return {**self._schema(info.type), **(info.extra_json_schema or {})}
        if isinstance(info, inspect.StructType):
            return self._struct(info)
        if isinstance(info, inspect.UnionType):
            return self._union(info)
        if isinstance(info, inspect.CollectionType | inspect.VarTupleType):
            return _limited({"type": "array", "items": self._schema(info.item_type)}, info, "Items")
        if isinstance(info, inspect.TupleType):
            items = [self._schema(item) for item in info.item_types]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
        if isinstance(info, inspect.DictType):
            schema: Schema = {"type": "object", "additionalProperties": self._schema(info.value_type)}
            return _limited(schema, info, "Properties")
        if isinstance(info, inspect.LiteralType):
            return {"enum": sorted(info.values, key=str)}
        if isinstance(info, inspect.EnumType):
            return {"enum": sorted(member.value for member in info.cls)}
        if isinstance(info, inspect.CustomType):
            return self._scalar(info.cls)
        return _plain(info)

    def _struct(self, info: inspect.StructType) -> Schema:
        name = info.cls.__name__
        if self._types.setdefault(name, info.cls) is not info.cls:
            # the second struct of a name carries its package's name too
            name = f"{info.cls.__module__.split('.')[-2]}.{name}"
            if self._types.setdefault(name, info.cls) is not info.cls:
                raise ValueError(f"two structs are called {name}: {self._types[name]} and {info.cls}")
        if name not in self.definitions:
            self.definitions[name] = {}  # a struct may hold itself
            self.definitions[name] = self._fields(info)
        return {"$ref": f"#/$defs/{name}"}

    def _fields(self, info: inspect.StructType) -> Schema:
        schema: Schema = {"type": "object"}
        if info.cls.__doc__ and not info.cls.__doc__.startswith(f"{info.cls.__name__}("):
            schema["description"] = " ".join(info.cls.__doc__.split())
        schema["properties"] = {field.encode_name: self._schema(field.type) for field in info.fields}
        required = [field.encode_name for field in info.fields if field.required]
        if info.tag_field is not None:
            schema["properties"] = {info.tag_field: {"const": info.tag}, **schema["properties"]}
            required.insert(0, info.tag_field)
        if required:
            schema["required"] = required
        if info.forbid_unknown_fields:
            schema["additionalProperties"] = False
        return schema

    def _union(self, info: inspect.UnionType) -> Schema:
        members = [self._schema(member) for member in info.types if not isinstance(member, inspect.NoneType)]
        nullable = any(isinstance(member, inspect.NoneType) for member in info.types)
        if nullable:
            members.append({"type": "null"})
        return members[0] if len(members) == 1 else {"anyOf": members}


def _plain(info: inspect.Type) -> Schema:
    if isinstance(info, inspect.BoolType):
        return {"type": "boolean"}
    if isinstance(info, inspect.IntType | inspect.FloatType):
        bounds = {name: getattr(info, field) for field, name in _BOUNDS.items() if getattr(info, field) is not None}
        return {"type": "integer" if isinstance(info, inspect.IntType) else "number", **bounds}
    if isinstance(info, inspect.StrType):
        schema: Schema = {"type": "string"}
        if info.pattern is not None:
            schema["pattern"] = info.pattern
        return _limited(schema, info, "Length")
    if isinstance(info, inspect.NoneType):
        return {"type": "null"}
    if isinstance(info, inspect.AnyType | inspect.RawType):
        return {}
    raise TypeError(f"no schema for {type(info).__name__}")


def _limited(schema: Schema, info: Any, what: str) -> Schema:
    if info.min_length:
        schema[f"min{what}"] = info.min_length
    if info.max_length is not None:
        schema[f"max{what}"] = info.max_length
    return schema

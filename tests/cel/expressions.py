"""Random well-formed expressions over one device, made of what selectors are made of.

Left out is `int(true)`: the library converts it, Kubernetes has no such overload, and so neither have we.
"""

from __future__ import annotations

import random

A = "device.attributes['gpu.nvidia.com']"
TEXTS = ["type", "productName"]
NUMBERS = ["index", "numa"]
TRUTHS = ["healthy", "broken"]
LISTS = ["models", "lanes"]
MISSING = ["profile", "nope"]
PARTS = ["indexOf('1')", "substring(1)", "replace('1', '2')"]
CONSTANTS = ["3", "'gpu'", "true"]
PATTERNS = ["'g'", "'H1'", "'^N.*3$'", "'p'"]


class Expressions:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def truth(self, depth: int) -> str:
        pick = self.chance.choice
        if depth <= 0:
            return pick([self.comparison, self.presence, self.membership, self.optional, self.text_test])()
        one, other = self.truth(depth - 1), self.truth(depth - 1)
        return pick(
            [
                f"({one} && {other})",
                f"({one} || {other})",
                f"!({one})",
                f"({one} ? {other} : {self.truth(depth - 1)})",
                f"cel.bind(b, {self.value()}, {one} || b == {self.value()})",
                f"{self.listing()}.{pick(['exists', 'all', 'exists_one'])}(x, x == {self.value()} || {one})",
                f"{self.listing()}.filter(x, {one}).size() > {self.number()}",
                f"{self.listing()}.map(x, x == {self.value()}).exists(y, y)",
            ]
        )

    def name(self) -> str:
        return self.chance.choice(TEXTS + NUMBERS + TRUTHS + LISTS + MISSING)

    def value(self) -> str:
        pick = self.chance.choice
        return pick(
            [
                f"{A}.{self.name()}", f"{A}['{self.name()}']", "'gpu'", "'H100'", "3", "0", "2.5", "true", "1u",
                f"({A}.{pick(NUMBERS)} {pick(['+', '-', '*', '/', '%'])} {pick(['2', '0', '3', '7'])})",
                f"{A}.{pick(TEXTS)}.{pick(['lowerAscii()', 'upperAscii()', 'size()', 'trim()', 'charAt(1)'])}",
                f"{A}.{pick(TEXTS)}.{pick(PARTS)}",
                f"{A}.?{self.name()}.orValue({pick(CONSTANTS)})",
                f"{pick(['string', 'double', 'type', 'dyn', 'uint', 'bool'])}({A}.{self.name()})",
                f"int({A}.{pick(TEXTS + NUMBERS + LISTS + MISSING)})",
                f"size({A}.{pick(LISTS)})", f"{A}.{pick(LISTS)}[{pick(['0', '1', '9'])}]", "[1, 2]", "{'a': 1}",
            ]
        )  # fmt: skip

    def number(self) -> str:
        return self.chance.choice(["0", "1", "2"])

    def listing(self) -> str:
        return self.chance.choice(
            [f"{A}.models", f"{A}.lanes", "[1, 2, 3]", "['gpu', 'mig']", "[]", f"[{self.value()}]"]
        )

    def comparison(self) -> str:
        operator = self.chance.choice(["==", "!=", "<", "<=", ">", ">="])
        return f"dyn({self.value()}) {operator} dyn({self.value()})"

    def presence(self) -> str:
        return self.chance.choice([f"has({A}.{self.name()})", f"'{self.name()}' in {A}"])

    def membership(self) -> str:
        return f"dyn({self.value()}) in {self.listing()}"

    def optional(self) -> str:
        return self.chance.choice(
            [
                f"{A}.?{self.name()}.hasValue()",
                f"{A}[?'{self.name()}'].orValue({self.value()}) == {self.value()}",
                f"{A}.?{self.name()}.or(optional.of({self.value()})).hasValue()",
                f"{A}.?{self.name()}.optMap(v, v == {self.value()}).orValue(false)",
                f"device.attributes[?'gpu.nvidia.com'].?{self.name()}.hasValue()",
                f"device.attributes[?'gpu.nvidia.com'].{self.name()}.orValue(3) == {self.value()}",
                f"{A}.?{self.name()}.?x.hasValue()",
                f"optional.ofNonZeroValue({self.value()}).hasValue()",
            ]
        )

    def text_test(self) -> str:
        test = self.chance.choice(["contains", "startsWith", "endsWith", "matches"])
        return f"{A}.{self.name()}.{test}({self.chance.choice(PATTERNS)})"

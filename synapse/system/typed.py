"""The names of `typing` that annotations and values need, without loading it, which took a seventh
of a cold command.

To a type checker these names are typing's own. At run time the same class statements make the same
named tuples, by `collections.namedtuple`, but annotations stay text, which needs `from __future__
import annotations`. Imports nothing of ours.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False  # type checkers go by the name, and take it for true

if TYPE_CHECKING:
    from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

    T = TypeVar("T")
else:
    Any = NoReturn = TypeAlias = T = object  # only annotations name them

    class _Named(type):
        """Makes of each class that names NamedTuple as its base a tuple with its fields, and with
        all else in it.
        """

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.pop("__annotations__")
            defaults = [body.pop(field) for field in fields if field in body]
            new_class = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            new_class.__annotations__ = new_class.__new__.__annotations__ = fields
            for key, value in body.items():
                setattr(new_class, key, value)
            return new_class

    class NamedTuple(metaclass=_Named):
        """The base to name."""


__all__ = ["TYPE_CHECKING", "Any", "NamedTuple", "NoReturn", "T", "TypeAlias"]

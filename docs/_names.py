"""How the site reads the code: public names, the parameters of records, fields and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import griffe

PACKAGE = "lancekit"
FIELD = "dataclasses.field"
#: what gives a function the parameters of a record, and the sections of docstrings
TAKES = "record.takes"
PARAMETERS = "\n\nParameters\n----------\n"
LATER = ("\n\nReturns\n---", "\n\nYields\n---", "\n\nRaises\n---", "\n\nExamples\n---")


class PublicNames(griffe.Extension):
    """Show names as Python has them, where griffe reads the source otherwise."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Let a function win over the module of its name, and a class over ``Name = Class``."""
        for name in map(str, pkg.exports or ()):
            member = pkg[name]
            inner = member.members.get(name) if member.is_module else None
            if inner is not None and inner.is_function:
                function = _defined(inner)
                others = {str(other) for other in member.exports or ()} - {name}
                # what else the module has is still found
                function.members.update({o: _defined(member.members[o]) for o in others})
                pkg.members[name] = griffe.Alias(name, function, parent=pkg)
            elif member.is_class:
                owner = _defined(member)
                owner.members.update({part: _meant(own) for part, own in owner.members.items()})
            else:
                pkg.members[name] = _meant(member)
        for function in _functions(pkg):
            _take_record(function, pkg)
            for parameter in function.parameters:
                parameter.default = _value(parameter.default, pkg)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Show the default of a field that a function of our own declares, not the call."""
        call = attr.value
        if not attr.parent.is_class or attr.annotation is None:
            return
        if not isinstance(call, griffe.ExprCall) or call.canonical_path == FIELD:
            return
        if attr.parent.name == "Options":
            attr.value, _check, text = call.arguments
            attr.docstring = griffe.Docstring(str(text).strip("\"'"), parent=attr)
            return
        told = [each for each in call.arguments if isinstance(each, griffe.ExprKeyword)]
        if not call.arguments:
            told = [griffe.ExprKeyword("default", "...")]
        required = [griffe.ExprKeyword("init", "True")]
        attr.value = griffe.ExprCall(griffe.ExprName(FIELD), told or required)


def _functions(owner: Any) -> Iterator[griffe.Function]:
    for member in owner.members.values():
        if member.is_alias:
            continue
        if member.is_function:
            yield member
        elif member.is_module or member.is_class:
            yield from _functions(member)


def _take_record(function: griffe.Function, pkg: griffe.Module) -> None:
    """Show the parameters of a record in the place of the record (`lancekit._arguments`)."""
    for decorator in function.decorators:
        call = decorator.value
        if not isinstance(call, griffe.ExprCall) or not call.canonical_path.endswith(TAKES):
            continue
        record, *order = call.arguments
        kinds = _kinds(pkg.modules_collection[record.canonical_path])
        found = {one.name: one for kind in kinds for one in _fields(kind)}
        named = str(order[0]).strip("\"'").split() if order else None
        first = found if named is None else named
        by_place = griffe.ParameterKind.positional_or_keyword
        for name, one in found.items():
            if named is not None:
                one.kind = by_place if name in named else griffe.ParameterKind.keyword_only
        listed = [found.pop(name) for name in list(first)] + list(found.values())
        own = list(function.parameters)[:-1]
        listed.sort(key=lambda one: one.kind is griffe.ParameterKind.keyword_only)
        function.parameters = griffe.Parameters(*own, *listed)
        if function.docstring is not None:
            function.docstring.value = _described(function.docstring.value, kinds)


def _kinds(record: griffe.Class) -> list[griffe.Class]:
    return [*reversed(record.mro()), record]


def _fields(kind: griffe.Class) -> Iterator[griffe.Parameter]:
    how = griffe.ParameterKind.positional_or_keyword
    for name, field in kind.members.items():
        if not field.is_attribute or field.annotation is None or "property" in field.labels:
            continue
        if str(field.annotation) == "KW_ONLY":
            how = griffe.ParameterKind.keyword_only
        elif not name.startswith("_"):
            default = field.value
            if isinstance(default, griffe.ExprCall):
                told = [one for one in default.arguments if isinstance(one, griffe.ExprKeyword)]
                default = next((one.value for one in told if one.name == "default"), None)
            yield griffe.Parameter(name, annotation=field.annotation, kind=how, default=default)


def _described(text: str, kinds: list[griffe.Class]) -> str:
    """Put what the records say of their parameters before what comes later in a docstring."""
    texts = [kind.docstring.value for kind in kinds if kind.docstring is not None]
    parts = [after for one in texts if (after := one.partition(PARAMETERS)[2])]
    at = min((at for one in LATER if (at := text.find(one)) >= 0), default=len(text))
    return text[:at] + PARAMETERS + "\n".join(parts) + text[at:]


def _value(default: Any, pkg: griffe.Module) -> Any:
    """Return what a default is where it is a constant of our own, which users do not know."""
    if not isinstance(default, griffe.ExprName) or not default.name.isupper():
        return default
    path = default.canonical_path
    return pkg.modules_collection[path].value if path.startswith(f"{PACKAGE}.") else default


def _defined(member: Any) -> Any:
    return member.final_target if member.is_alias else member


def _meant(member: Any) -> Any:
    """Return the class that an assignment gives another name, else what was passed."""
    named = griffe.ExprName | griffe.ExprAttribute
    if not member.is_attribute or not isinstance(member.value, named):
        return member
    return griffe.Alias(member.name, member.value.canonical_path, parent=member.parent)

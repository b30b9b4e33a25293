"""Resolves the conditions of a template for given parameters, and removes what they disable.

    python infra/tests/render.py [FILE] [NAME=VALUE ...]

Tools that read templates see both sides of every `Fn::If`, or neither. They report faults in parts that are never
deployed, or miss faults in parts that are. The script does not resolve references to resources, which are known only
at deployment.
"""

import json
import sys
from pathlib import Path

NOTHING = {"Ref": "AWS::NoValue"}


class Unknown(Exception):
    """A name that the template does not declare."""


def render(template: dict, values: dict[str, str] | None = None) -> dict:
    """Returns the template with these values of its parameters. The other parameters have their defaults."""
    values = values or {}
    declared = template.get("Parameters", {})
    view = View.of(template, values)
    rendered = {name: part for name, part in template.items() if name not in ("Conditions", "Rules")}
    # A tool that resolves a `Ref` then finds the given value.
    for name, value in values.items():
        rendered["Parameters"] = rendered["Parameters"] | {name: declared[name] | {"Default": value}}
    for part in ("Resources", "Outputs"):
        rendered[part] = {name: view.cut(given) for name, given in template.get(part, {}).items() if view.has(given)}
    return rendered


class View:
    def __init__(self, parameters: dict[str, str], conditions: dict):
        self.parameters, self.conditions = parameters, conditions

    @classmethod
    def of(cls, template: dict, values: dict[str, str]) -> "View":
        declared = template.get("Parameters", {})
        if strangers := values.keys() - declared.keys():
            raise Unknown(f"unknown parameter {', '.join(sorted(strangers))}")
        defaults = {name: str(parameter.get("Default", "")) for name, parameter in declared.items()}
        return cls(defaults | values, template.get("Conditions", {}))

    def has(self, given: dict) -> bool:
        return "Condition" not in given or self.holds({"Condition": given["Condition"]})

    def cut(self, given: dict) -> dict:
        return {name: self.chosen(part) for name, part in given.items() if name != "Condition"}

    def chosen(self, part):
        """Returns a part with each `Fn::If` resolved, and without values that are `AWS::NoValue`."""
        if isinstance(part, dict):
            if part.keys() == {"Fn::If"}:
                name, yes, no = part["Fn::If"]
                return self.chosen(yes if self.holds({"Condition": name}) else no)
            each = {name: self.chosen(value) for name, value in part.items()}
            return {name: value for name, value in each.items() if value != NOTHING}
        if isinstance(part, list):
            return [value for value in map(self.chosen, part) if value != NOTHING]
        return part

    def holds(self, condition: dict) -> bool:
        [(kind, given)] = condition.items()
        match kind:
            case "Condition":
                if given not in self.conditions:
                    raise Unknown(f"unknown condition {given}")
                return self.holds(self.conditions[given])
            case "Fn::Equals":
                one, other = map(self.text, given)
                return one == other
            case "Fn::Not":
                return not self.holds(given[0])
            case "Fn::And":
                return all(map(self.holds, given))
            case "Fn::Or":
                return any(map(self.holds, given))
        raise Unknown(f"unsupported condition function {kind}")

    def text(self, value) -> str:
        if isinstance(value, dict):
            name = value.get("Ref")
            if name not in self.parameters:
                raise Unknown(f"a condition refers to {value}, which is not a parameter")
            return self.parameters[name]
        return str(value)


def main() -> int:
    from template_gate import TEMPLATE, expand

    words = sys.argv[1:]
    path = Path(words.pop(0)) if words and "=" not in words[0] else TEMPLATE
    values = dict(word.split("=", 1) for word in words)
    print(json.dumps(render(expand(path, values), values), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""A JSON schema of uroced.toml, for editors: the flags of uroced by the names of their keys."""
import json

VALUE = {"type": ["string", "integer", "boolean"]}
OF_ONE = {"anyOf": [VALUE, {"type": "array", "items": {"type": "string"}},
                    {"type": "object"}]}  # cc.PARAMETER and uroce1.rate are tables.
PROFILES = ["laptop", "shared", "server"]
FIELDS = {"type": "object", "additionalProperties": OF_ONE}


def property_of(entry):
    value = {"type": ["string", "integer"]} if entry.value else {"type": "boolean"}
    return {"description": " ".join(entry.text), **value}


def properties(entries):
    return {entry.key(): property_of(entry) for entry in entries}


def schema(uroced):
    top, limits = {}, {}
    for title, entries in uroced.settings():
        (limits if title.startswith("Limits") else top).update(properties(entries))
    del top["config"]
    profile = top.pop("limits")
    limits["profile"] = {**profile, "enum": PROFILES, "type": "string"}
    for entry in uroced.entries("NICs (each flag may be repeated)"):
        if entry.key() == "fault":
            top["fault"] = {"description": " ".join(entry.text), "type": ["string", "array"],
                            "items": {"type": "string"}}
        else:
            top[entry.key()] = {"description": " ".join(entry.text), "type": "array",
                                  "items": FIELDS}
    top["limits"] = {"type": "object", "properties": limits, "additionalProperties": False}
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#",
                       "title": "uroced.toml", "type": "object", "properties": top,
                       "additionalProperties": False}, indent=2) + "\n"

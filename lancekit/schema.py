"""pylance's `schema`, re-exported from `lancekit._api.lance_schema`."""

from lancekit._api.lance_schema import LanceField, LanceSchema, json_to_schema, schema_to_json

__all__ = ["LanceField", "LanceSchema", "json_to_schema", "schema_to_json"]

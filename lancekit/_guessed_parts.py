"""Names that users type first on the objects of a dataset, as in `lancekit._guessed_names`.

The objects are versions, tags, branches, diffs, merges, expressions, results of SQL and others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

#: a line, and the names that it answers, separated by spaces
Lines: TypeAlias = Mapping[str, str]

COMPACT = "ds.optimize.compact_files()"
CLEANUP = "ds.cleanup_old_versions()"

#: the lines of unknown attributes, by class
PARTS: Mapping[str, Lines] = {
    "History": {
        "ds.versions().to_pandas()": "df pandas toPandas frame",
        "ds.versions().to_table()": "to_arrow arrow",
        "ds.versions()": "show display list print collect",
        "ds.versions()[-1]": "latest last newest current",
        "ds.versions()[0]": "first iloc loc oldest",
        "ds.versions()[-5:]": "head tail limit",
        "list(ds.versions())": "tolist to_list to_dicts items values",
        "ds.diff(1)": "diff compare",
    },
    "Version": {
        "ds.versions()[-1].version": "id number version_id snapshot_id num sha hash",
        "ds.versions()[-1].timestamp": "time date created created_at committed commit_time "
        "datetime committed_at",
        "ds.versions()[-1].provenance": "author user committer who userName",
        "ds.versions()[-1].message": "commit_message comment description msg",
        "ds.versions()[-1].num_rows": "rows row_count count",
        "ds.versions()[-1].read_version": "parent parent_id parent_version",
        "ds.versions()[-1].operation": "op action kind type operationMetrics",
        "ds.changes($version)": "diff show changes",
        "ds.checkout_version($version)": "checkout open load dataset",
        "ds.restore($version)": "restore rollback revert",
        "ds.tags.create('x', $version)": "tag create_tag",
    },
    "Tags": {
        "ds.tags['$tag']": "get checkout open get_dataset switch load",
        "ds.tags.create('x')": "add new set_tag insert",
        "ds.tags.update('$tag', $version)": "set move retag replace",
        "ds.tags.delete('$tag')": "remove drop pop",
        "ds.tags.create('new', '$tag')": "rename copy",
        "list(ds.tags)": "keys",
        "ds.tags.list()": "items values all show tolist",
    },
    "Branches": {
        "ds.branches['$branch']": "checkout switch get open get_dataset load use",
        "ds.branches.create('x')": "add new branch new_branch insert",
        "ds.branches.delete('$branch')": "remove drop pop",
        "ds.create_branch('new', ('$branch', None))": "rename copy",
        "ds.branch": "current active head name current_branch",
        "ds.branches.compare('$branch')": "diff log",
        "list(ds.branches)": "keys",
        "ds.branches.list()": "items values all show tolist",
    },
    "MergeInsertBuilder": {
        "when_matched_update_all()": "whenMatchedUpdateAll when_matched_update update_all "
        "whenMatchedUpdate whenMatched when_matched update on_match_update",
        "when_not_matched_insert_all()": "whenNotMatchedInsertAll when_not_matched_insert "
        "insert_all whenNotMatchedInsert whenNotMatched when_not_matched insert",
        "when_not_matched_by_source_delete()": "when_not_matched_by_source "
        "whenNotMatchedBySourceDelete whenNotMatchedBySource delete_missing",
        "when_matched_delete()": "whenMatchedDelete delete",
        "execute(df)": "run merge source using apply commit write upsert",
        "preview(df)": "dry_run plan show",
    },
    "DatasetOptimizer": {
        COMPACT: "compact executeCompaction rewrite z_order zorder zorder_by executeZOrderBy "
        "rewrite_data_files compaction bin_pack",
        CLEANUP: "vacuum cleanup cleanup_old_versions expire_snapshots gc clean",
        "ds.optimize.optimize_indices()": "optimize indices reindex optimize_index",
        "ds.optimize.enable_auto_cleanup({'interval': 20})": "auto_cleanup auto_vacuum schedule",
    },
    "Expression": {
        "lk.col('x').is_null()": "isnull isna is_na",
        "lk.col('x').is_not_null()": "notnull notna is_valid",
        "lk.col('x').is_nan()": "isnan",
        "~lk.col('x').is_in([1, 2])": "not_in is_not_in",
        "lk.col('x').fill_null(0)": "fillna coalesce",
        "lk.col('x').trim()": "strip",
        "lk.col('x').length()": "len len_chars char_length size",
        "lk.col('x').contains('a'), without .str": "str",
        "lk.col('x').year(), without .dt": "dt",
        "lk.col('x').field('y')": "struct get_field",
        "lk.col('x').array_contains(1)": "list arr",
        "lk.col('x').alias('y')": "as_ rename name_as label",
        "lk.col('x') == 1": "eq equals is_equal",
        "lk.col('x') != 1": "ne neq is_not_equal",
        "lk.col('x') > 1": "gt ge lt le",
        "~lk.col('x')": "not_ invert",
        "(lk.col('x') > 1) & (lk.col('x') < 5)": "and_ or_ xor",
        "lk.sql('SELECT avg(x) FROM ds')": "sum mean max min count n_unique std var median "
        "first last any all agg over shift rank cumsum value_counts",
        "lk.sql('SELECT * FROM ds ORDER BY x')": "asc desc sort sort_by",
        "ds.add_columns({'y': 'CASE WHEN x > 1 THEN 2 ELSE 3 END'})": "when otherwise then "
        "where clip map",
        "ds.add_columns(function)": "map_elements apply map_batches",
        "lk.col('x').sql": "to_sql explain",
    },
    "SqlResult": {
        "lk.sql(...).to_pandas()": "toPandas fetchdf fetch_df pandas fetch_df_chunk",
        "lk.sql(...).to_table()": "arrow to_arrow collect execute fetch_arrow_table toArrow "
        "read_all result run to_arrow_table",
        "lk.write_dataset(lk.sql(...), 'new.lance')": "save write create to_lance saveAsTable "
        "insertInto write_dataset write_table",
        "pq.write_table(lk.sql(...).to_table(), 'x.parquet')": "write_parquet to_parquet to_csv "
        "write_csv export",
        "lk.sql(...).fetchall()[0]": "fetchone first one scalar",
        "lk.sql(...).fetchall()": "fetchmany fetchnumpy rows iterrows to_pylist to_dicts tolist "
        "to_list",
        "lk.sql(...).head()": "show display limit print glimpse tail",
        "len(lk.sql(...))": "count shape height size",
        "lk.sql(...).to_polars()": "polars lazy",
        "lk.sql(...).schema.names": "names column_names",
        "lk.sql(...).schema": "dtypes types description printSchema describe",
    },
}

#: the lines of arguments that do not fit
ARGUMENTS_OF_PARTS: tuple[tuple[str, str, str], ...] = (
)  # fmt: skip

#: the lines of operators, by class
OPERATORS_OF_PARTS: Mapping[str, Lines] = {
    "DatasetOptimizer": {COMPACT: "__call__"},
    "SqlResult": {
        "lk.sql(...).fetchall()": "__iter__",
        "lk.sql(...).to_table()['column'], or .fetchall()[0]": "__getitem__",
    },
    "Tags": {
        "ds.tags.delete('$item')": "__delitem__",
        "ds.tags.create('$item', $value)": "__setitem__",
        "ds.tags.list()": "__call__",
    },
    "Branches": {
        "ds.branches.delete('$item')": "__delitem__",
        "ds.create_branch('$item', $value)": "__setitem__",
        "ds.branches.list()": "__call__",
    },
}  # fmt: skip

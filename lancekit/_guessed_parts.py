"""Names that users type first on the objects of a dataset, as in `lancekit._guessed_names`.

The objects are versions, tags, branches, diffs, merges, expressions, results of SQL and others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

#: a line, and the names that it answers, separated by spaces
Lines: TypeAlias = Mapping[str, str]

COMPACT = "ds.optimize.compact_files()"
UPSERT = (
    "ds.merge_insert('$key').when_matched_update_all().when_not_matched_insert_all().execute(df)"
)
CLEANUP = "ds.cleanup_old_versions()"
_AUTO = "ds.optimize.enable_auto_cleanup({'interval': 9, 'retain_versions': 9})"
_PARQUET = "pq.write_table(lk.sql(...).to_table(), 'x.parquet')"
_CASE = "lk.sql('SELECT *, CASE WHEN $column > 1 THEN 2 ELSE 3 END AS y FROM ds')"
_SOURCE_UPDATE = "ds.update({'$number': '$zero'}, where='$key NOT IN (1, 2)')"

#: the lines of unknown attributes, by class
PARTS: Mapping[str, Lines] = {
    "DatasetDiff": {
        "d.to_table().to_pylist()": "to_dict to_dicts to_pylist tolist to_list",
        "d.to_pandas().query(\"_change == 'delete'\")": "removed deleted",
        "d.to_pandas().query(\"_change == 'insert'\")": "added inserted",
        "d.to_table().to_pandas().to_csv('x.csv')": "to_csv write_csv",
        "d.to_pandas()": "to_df df toPandas pandas rows values", "d.to_batches()": "iterrows items",
        "d.to_pandas().query('$filter')": "filter query select", "d.to_polars()": "pl polars lazy",
        "d.counts": "summary stats count size shape describe", "ds.undo()": "undo revert rollback",
        "d.sample()": "head show print preview tail first", "len(d) == 0": "empty is_empty",
        "d.old, d.new": "version before after left right", "d.to_table()": "to_arrow arrow collect",
        "d.apply(ds)": "merge patch",
        "d.to_pandas().query(\"_change.str.startswith('update')\")": "changed updated modified "
        "modifications",
    },
    "DiffCounts": {
        "dict(d.counts)": "items values to_dict", "d.counts.deleted": "removed", "len(d)": "sum",
        "d.counts.updated": "changed", "d.counts.inserted": "added",
    },
    "Listed": {
        "pd.DataFrame([*rows]), or .to_pandas()": "df pandas toPandas to_df", "it[:5]": "head show",
        "list(it)": "to_list tolist to_pylist to_dicts items values", ".to_polars()": "pl polars",
        "pa.Table.from_pandas(it.to_pandas())": "to_arrow arrow", "len(it)": "size shape",
        "it[0]": "first",
    },
    "History": {
        "ds.versions().to_pandas().query(\"operation == 'Append'\")": "filter query select",
        "ds.versions().to_table().to_pylist()": "to_pylist to_dicts to_dict rows",
        "ds.versions().to_pandas().sort_values('timestamp')": "sort sort_values",
        "ds.versions()": "show display list print collect log history", "ds.plot.history()": "plot",
        "ds.versions().to_pandas()": "to_df df toPandas pandas frame", "ds.diff(1)": "diff compare",
        "ds.versions()[-1]": "latest last newest current HEAD max", "ds.undo()": "undo",
        "list(ds.versions())": "tolist to_list items values", CLEANUP: "vacuum delete remove drop",
        "ds.versions()[0]": "first iloc loc oldest min", "ds.restore(1)": "restore rollback revert",
        "ds.versions().to_table()": "to_arrow arrow", "ds.versions().numbers": "ids keys names",
        "ds.versions().to_polars()": "pl polars", "ds.checkout_version(1)": "checkout get",
        "ds.versions()[-5:]": "head tail limit", "len(ds.versions())": "size shape",
    },
    "Version": {
        "ds.versions()[-1].message": "commit_message comment description msg subject",
        "ds.versions()[-1].version": "id number version_id snapshot_id num sha hash",
        "ds.cleanup_old_versions(versions=[$version])": "delete remove drop expire",
        "ds.checkout_version($version).to_pandas()": "to_pandas df head to_polars",
        "ds.versions()[-1].provenance": "author user committer who userName", "ds.undo()": "undo",
        "ds.checkout_version($version)": "checkout open load dataset",
        "ds.checkout_version($version).schema": "columns schema_id",
        "ds.versions()[-1].num_rows": "rows row_count count size", "ds.revert($version)": "revert",
        "ds.versions()[-1].num_data_files": "manifest_list",
        "ds.changes($version)": "diff show changes stats", "ds.versions()[-1].writer": "engineInfo",
        "ds.tags.create('x', $version)": "tag create_tag",
        "ds.restore($version)": "restore rollback", "ds.versions()[-1].total_bytes": "nbytes",
        "ds.versions()[-1].timestamp": "time date created created_at committed commit_time "
        "datetime committed_at timestamp_ms when",
        "ds.versions()[-1].read_version": "parent parent_id parent_version parents "
        "parent_snapshot_id",
        "ds.versions()[-1].operation": "op action kind type operationMetrics summary "
        "operationParameters",
    },
    "Tags": {
        "ds.tags.list()": "items values all show tolist list_tags to_dict to_pylist log ls",
        "ds.tags['$tag']": "get checkout open get_dataset switch load get_tag",
        "ds.tags.list_ordered()[0]": "latest last first head current", "len(ds.tags)": "count size",
        "ds.tags.update('$tag', $version)": "set move retag replace",
        "ds.tags.create('x')": "add new set_tag insert create_tag", "list(ds.tags)": "keys to_list",
        "ds.tags.get_version('$tag')": "version rev_parse", "pa.table(ds.tags)": "to_arrow arrow",
        "ds.tags.to_pandas()": "to_df df toPandas pandas",
        "ds.deep_clone('copy.lance')": "push pull",
        "ds.restore('$tag')": "restore rollback revert", "ds.tags.to_polars()": "pl polars",
        "ds.tags.delete('$tag')": "remove drop pop rm", "'$tag' in ds.tags": "exists has",
        "ds.tags.create('new', '$tag')": "rename copy", "ds.diff('$tag')": "diff plan",
    },
    "Branches": {
        "ds.branches.list()": "items values all show tolist list_branches to_dict to_pylist",
        "ds.branches['$branch']": "checkout switch get open get_dataset load use",
        "ds.branches.compare('$branch')": "diff status plan merge_base preview",
        "ds.branches['$branch'].versions()": "log history commits latest last",
        "ds.branches.create('x')": "add new branch new_branch insert fork",
        "ds.branches.merge('$branch')": "fast_forward merge_branch squash",
        "ds.create_branch('new', ('$branch', None))": "rename copy",
        "ds.branch": "current active head name current_branch HEAD",
        "ds.branches.to_pandas()": "to_df df toPandas pandas", "ds.branches['main']": "main master",
        "ds.branches.delete('$branch')": "remove drop pop", "ds.branches.to_polars()": "pl polars",
        "ds.branches.cherry_pick('$branch', 2)": "pick", "ds.branches.rebase('$branch')": "update",
        "ds.undo()": "revert undo restore rollback", "pa.table(ds.branches)": "to_arrow arrow",
        "ds.checkout_latest()": "pull refresh", "ds.deep_clone('copy.lance')": "push",
        "'$branch' in ds.branches": "exists", "list(ds.branches)": "keys to_list",
        "len(ds.branches)": "count size", "ds.plot.graph()": "plot graph",
    },
    "TableIndices": {
        "ds.optimize.optimize_indices()": "optimize refresh update merge",
        "pa.Table.from_pandas(ds.indices.to_pandas())": "to_arrow arrow",
        "ds.list_indices()": "show to_dict to_dicts to_pylist describe",
        "ds.create_scalar_index('$key', 'BTREE')": "create add", "'$index' in ds.indices": "exists",
        "ds.indices.to_pandas()": "to_df df toPandas pandas", "ds.indices.to_polars()": "pl polars",
        "list(ds.indices)": "names tolist to_list list", "ds.stats.index_stats('$index')": "stats",
        "ds.drop_index('$index')": "drop delete remove",
    },
    "Constraints": {
        "ds.constraints.list()": "names keys items values show tolist to_list to_dict get",
        "ds.constraints.add('name', '$filter')": "create add_constraint update",
        "ds.constraints.to_pandas()": "to_df df toPandas pandas", "ds.constraints.run()": "check",
        "ds.constraints.drop('name')": "delete remove", "ds.constraints.to_polars()": "pl polars",
        "pa.table(ds.constraints)": "to_arrow arrow",
    },
    "LanceFragment": {
        "fragment.to_table(columns=['$key'])": "select columns", "fragment.data_files()": "files",
        "fragment.to_table(filter='$filter')": "filter query", "fragment.fragment_id": "id",
        "fragment.to_table()": "to_arrow arrow to_polars", COMPACT: "compact",
        "fragment.count_rows()": "num_rows size shape", "ds.update({'$number': '$zero'})": "update",
        "fragment.to_pandas()": "df pandas toPandas",
    },
    "MergeInsertBuilder": {
        _SOURCE_UPDATE: "when_not_matched_by_source_update whenNotMatchedBySourceUpdate",
        "when_matched_update_all('source.rev > target.rev')": "where filter when",
        "execute(df)": "run merge source using apply commit write upsert",
        "execute(df, schema_mode='merge')": "withSchemaEvolution",
        "when_matched_delete()": "whenMatchedDelete delete", "when_matched_fail()": "insert_only",
        "execute(df, commit_message='message')": "message", "preview(df)": "dry_run plan show head",
        "ds.merge_insert('$key')": "keys",
        "when_matched_update_all()": "whenMatchedUpdateAll when_matched_update update_all "
        "whenMatchedUpdate whenMatched when_matched update on_match_update",
        "when_not_matched_insert_all()": "whenNotMatchedInsertAll when_not_matched_insert "
        "insert_all whenNotMatchedInsert whenNotMatched when_not_matched insert "
        "whenNotMatchedInsertValues",
        "when_not_matched_by_source_delete()": "when_not_matched_by_source "
        "whenNotMatchedBySourceDelete whenNotMatchedBySource delete_missing",
    },
    "DatasetOptimizer": {
        "ds.optimize.optimize_indices()": "optimize indices reindex optimize_index refresh_index",
        CLEANUP: "vacuum cleanup cleanup_old_versions expire_snapshots gc clean prune",
        "ds.stats.dataset_stats()": "stats describe metrics",
        "ds.explain.compact_files()": "plan dry_run preview",
        _AUTO: "auto_cleanup auto_vacuum schedule auto",
        COMPACT: "compact executeCompaction rewrite z_order zorder zorder_by executeZOrderBy "
        "rewrite_data_files compaction bin_pack execute run all where sort",
    },
    "LanceStats": {
        "ds.stats.dataset_stats()": "summary rows num_rows describe table_stats size count",
        "ds['$number'].statistics()": "min max mean", "ds.stats.data_stats()": "columns",
    },
    "Expression": {
        "ds.to_table(columns={'y': 'substr($column, 1, 3)'})": "substr substring slice left right",
        "ds.to_table(filter=lk.col('$column') > 1)": "filter to_list to_numpy values show head",
        "lk.sql('SELECT * FROM ds ORDER BY $column')": "asc desc sort sort_by sort_values",
        "ds.to_table(columns={'y': 'date_trunc(''day'', $column)'})": "truncate strftime",
        "lk.sql('SELECT avg($column) FROM ds')": "mean over agg rank shift any all",
        "lk.sql('SELECT count(DISTINCT $column) FROM ds')": "n_unique nunique",
        "(lk.col('$column') > 1) & (lk.col('$column') < 5)": "and_ or_ xor",
        "lk.sql('SELECT count($column) FROM ds')": "count value_counts",
        "lk.col('$column').length()": "len len_chars char_length size",
        "lk.sql('SELECT sum($column) FROM ds')": "sum cumsum cum_sum",
        "lk.sql('SELECT median($column) FROM ds')": "median quantile",
        "ds.add_columns(function)": "map_elements apply map_batches",
        "lk.col('$column').is_not_null()": "notnull notna is_valid", "lk.col('$column') + 1": "add",
        "lk.col('$column').rlike('^a')": "regexp_matches fullmatch",
        "lk.col('$column').alias('y')": "as_ rename name_as label", "lk.col('$column') ** 2": "pow",
        "~lk.col('$column').is_in([1, 2])": "not_in is_not_in", "lk.col('$column').trim()": "strip",
        "lk.col('$column').contains('a'), without .str": "str", "~lk.col('$column')": "not_ invert",
        "lk.sql('SELECT stddev($column) FROM ds')": "std var",
        "lk.sql('SELECT DISTINCT $column FROM ds')": "unique",
        "lk.sql('SELECT min($column) FROM ds')": "min first", "lk.col('$column').is_nan()": "isnan",
        "lk.col('$column').fill_null(0)": "fillna coalesce", "lk.col('$column') > 1": "gt ge lt le",
        "lk.sql('SELECT max($column) FROM ds')": "max last", "lk.col('$column').concat('a')": "cat",
        "lk.col('$column').is_null()": "isnull isna is_na",
        "lk.col('$column').field('y')": "struct get_field",
        "lk.col('$column').array_contains(1)": "list arr",
        "lk.col('$column').upper()": "to_uppercase title",
        "lk.col('$column') != 1": "ne neq is_not_equal", "lk.col('$column').sql": "to_sql explain",
        "lk.col('$column') == 1": "eq equals is_equal", _CASE: "when otherwise then where clip map",
        "lk.col('$column').year(), without .dt": "dt",
    },
    "SqlResult": {
        "lk.sql('SELECT * FROM r ORDER BY $number', r=lk.sql(...))": "sort order sort_values",
        "lk.sql(...).head()": "show display print glimpse tail limit take preview sample",
        "lk.sql('SELECT DISTINCT $text FROM r', r=lk.sql(...))": "unique drop_duplicates",
        "lk.sql('SELECT * FROM r', r=lk.sql(...))": "createOrReplaceTempView create_view",
        "lk.sql('SELECT * FROM r JOIN df USING ($key)', r=lk.sql(...))": "join merge",
        "lk.sql('SELECT * FROM r UNION ALL SELECT * FROM r', r=lk.sql(...))": "union",
        "lk.sql(...).to_pandas().to_csv('x.csv')": "to_csv write_csv to_excel",
        "lk.sql(...).to_table().to_pylist()": "to_pydict to_pylist to_dicts to_dict",
        "lk.sql(...).fetchall()": "fetchmany rows iterrows tolist to_list",
        "lk.sql(...).to_pandas().to_numpy()": "fetchnumpy to_numpy values",
        "lk.sql('SELECT * FROM r WHERE $filter', r=lk.sql(...))": "filter",
        "lk.sql('SELECT $mean FROM r', r=lk.sql(...))": "sum mean min max",
        "lk.sql(...).to_pandas().describe()": "describe summary info",
        "lk.sql(...).schema": "dtypes types description printSchema",
        "lk.sql(...).fetchall()[0][0]": "item scalar fetchval",
        "lk.sql(...).schema.names": "names column_names keys",
        "lk.sql(...).fetchall()[0]": "fetchone first one", "lk.sql(...).to_polars()": "polars lazy",
        "lk.sql('EXPLAIN SELECT * FROM ds')": "explain", "lk.sql(...).to_pandas().plot()": "plot",
        _PARQUET: "write_parquet to_parquet export", "len(lk.sql(...))": "count height size",
        "lk.sql(...).to_pandas()": "toPandas fetchdf fetch_df pandas fetch_df_chunk to_df iloc loc "
        "index",
        "lk.sql(...).to_table()": "arrow to_arrow collect execute fetch_arrow_table toArrow "
        "read_all result run to_arrow_table",
        "lk.sql(...).to_table().to_batches()": "fetch_record_batch fetch_arrow_reader "
        "toLocalIterator",
        "lk.write_dataset(lk.sql(...), 'new.lance')": "save write create to_lance saveAsTable "
        "insertInto write_dataset write_table writeTo",
        "lk.sql('SELECT $key FROM r', r=lk.sql(...))": "select project with_columns withColumn "
        "assign drop",
        "lk.sql('SELECT $text, $mean FROM r GROUP BY $text', r=lk.sql(...))": "groupby group_by "
        "groupBy aggregate",
    },
}  # fmt: skip

#: the lines of arguments that do not fit, looked up before those of the dataset
ARGUMENTS_OF_PARTS: tuple[tuple[str, str, str], ...] = (
    ("merge_insert", UPSERT,
     "(more) (wrong) source data source_table predicate source_alias target_alias other condition"),
    ("merge_insert", "ds.merge_insert($value)",
     "key keys left_on right_on using by merge_key join_cols"),
    ("Tags.create", "ds.tags.create('x', $value)",
     "version at branch ref revision snapshot_id source commit"),
    ("Tags.create", "ds.tags.create('x')", "(missing) (wrong)"),
    ("Tags.update", "ds.tags.update('name', 1)", "(missing) (wrong) version ref"),
    ("Tags.delete", "ds.tags.delete('name')", "(missing) (wrong) (more) name"),
    ("Branches.create", "ds.branches.create('x', $value)",
     "version at source ref revision source_reference from_"),
    ("Branches.create", "ds.branches.create('x')", "(missing) (wrong)"),
    ("Branches.delete", "ds.branches.delete('name')", "(missing) (wrong) (more) name force"),
    ("Branches.merge", "ds.branches.merge('x')", "(missing) (wrong) from_ branch other"),
    ("Branches.rebase", "ds.branches.rebase('x')", "(missing) (wrong) onto"),
    ("Branches.compare", "ds.branches.compare('x')", "(missing) (wrong) branch other"),
    ("Branches.cherry_pick", "ds.branches.cherry_pick('x', 2)", "(missing) (wrong)"),
    ("MergeInsertBuilder.execute", "execute(df)", "(missing) (more) source data df rows new_data"),
    ("commit_message", "commit_message=$value", "message msg comment description commit_metadata"),
    ("DatasetDiff.to_pandas", "names='delta'", "columns (more)"),
    ("DatasetDiff.apply", "d.apply(ds)", "(missing)"),
    ("enable_auto_cleanup", _AUTO, "(missing) interval older_than (wrong)"),
    ("compact_files", "ds.optimize.compact_files(target_rows_per_fragment=1_000_000)",
     "target_size max_rows rows_per_file num_files target_file_size max_rows_per_file"),
    ("Constraints.add", "ds.constraints.add('name', '$filter')",
     "(missing) (more) expr check constraint"),
    ("Constraints.drop", "ds.constraints.drop('name')", "(missing) (wrong)"),
)  # fmt: skip

#: the lines of operators, by class
OPERATORS_OF_PARTS: Mapping[str, Lines] = {
    "DatasetDiff": {
        "d.to_table()[$shown], or d.sample()": "__getitem__", "d.to_batches()": "__iter__",
        "d.to_pandas()": "__array__",
    },
    "DatasetOptimizer": {
        COMPACT: "__call__",
    },
    "SqlResult": {
        "lk.sql(...).to_table()['column'], or .fetchall()[0]": "__getitem__",
        "lk.sql(...).to_pandas()": "__array__", "lk.sql(...).fetchall()": "__iter__",
    },
    "Tags": {
        "ds.tags.create('$item', $value)": "__setitem__", "ds.tags.delete('$item')": "__delitem__",
        "ds.tags.list()": "__call__",
    },
    "Branches": {
        "ds.create_branch('$item', $value)": "__setitem__", "ds.branches.list()": "__call__",
        "ds.branches.delete('$item')": "__delitem__",
    },
    "MergeInsertBuilder": {
        "execute(df)": "__call__",
    },
    "TableIndices": {
        "ds.create_scalar_index('$item', 'BTREE')": "__setitem__", "ds.list_indices()": "__call__",
        "ds.drop_index('$item')": "__delitem__",
    },
    "Constraints": {
        "ds.constraints.add('$item', '$value')": "__setitem__",
        "ds.constraints.list()": "__call__ __getitem__",
        "ds.constraints.drop('$item')": "__delitem__",
    },
}  # fmt: skip

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

_RAN = {
    "the call alone, because it has committed, or ds.undo()": "execute commit run collect save "
    "undo apply rollback", "ds.to_pandas(), or ds.diff()": "to_pandas show head to_table df diff",
    "dict(result)": "rows count rowcount num_rows stats counts summary metrics updated inserted "
    "deleted num_updated num_deleted rows_updated rows_deleted rows_inserted fetchall to_dict",
}  # fmt: skip
_QUERY = {
    "lk.sql('SELECT * FROM ds').to_pandas(), or ds.sql(...).build().to_batch_records()": "df "
    "to_pandas pandas toPandas to_table arrow pl to_polars collect execute fetchall show head",
}

#: the lines of unknown attributes, by class
PARTS: Mapping[str, Lines] = {
    "Plots": {
        "ds.to_pandas().plot()": "scatter line bar barh area pie hexbin box",
        "ds.plot.columns(1)": "hist histogram density kde distribution",
        "ds.plot.graph()": "branches tree tags log", "ds.plot.history()": "versions timeline",
    },
    "DatasetDiff": {
        "d.to_pandas()": "to_html to_markdown only iloc loc to_df df toPandas pandas frame "
        "to_dataframe to_frame rows data details values to_sql to_excel",
        "d.to_pandas().query(\"_change == 'insert'\")": "added inserted inserts additions new_rows "
        "insertions left_only rows_added only_inserted", "d.to_polars()": "pl polars lazy",
        "d.to_pandas().query(\"_change == 'delete'\")": "removed deleted deletes deletions "
        "removals right_only rows_removed only_deleted",
        "d.to_pandas().query(\"_change.str.startswith('update')\")": "changed updated updates "
        "modified modifications changes edited",
        "d.counts": "stat numstat summary stats statistics count num_changes size shape describe "
        "totals num_rows", "len(d) == 0": "empty is_empty isEmpty equal has_changes any unchanged",
        "d.old, d.new": "versions version before after base target left right from_version "
        "to_version", "d.to_table().to_pandas().to_csv('x.csv')": "to_csv write_csv export save",
        "d.to_table()": "to_arrow arrow table collect fetch_arrow_table to_arrow_table read_all",
        "d.to_table().to_pylist()": "to_dict to_dicts to_pylist tolist to_list fetchall to_json",
        "d.sample()": "head show display print preview limit tail first examples",
        "d.schema.dropped": "dropped_columns removed_columns columns_removed",
        "d.columns": "names column_names cells fields changed_columns",
        "d.to_pandas().query('$filter')": "filter where query select",
        "d.schema.added": "added_columns new_columns columns_added",
        "ds.undo()": "invert inverse reverse undo revert rollback",
        "d.to_batches()": "iterrows itertuples items iter_rows",
        "d.apply(ds)": "merge patch apply_to apply_changes",
    },
    "DiffCounts": {
        "d.counts.inserted": "added inserts new additions num_inserted num_inserted_rows",
        "d.counts.deleted": "removed deletes deletions num_deleted num_deleted_rows",
        "d.counts.updated": "changed updates modified num_updated num_updated_rows",
        "dict(d.counts)": "items values to_dict asdict as_dict to_pandas",
        "len(d)": "total sum all changes",
    },
    "Listed": {
        "list(it)": "to_list tolist to_pylist to_dicts fetchall collect items values",
        "pd.DataFrame([*rows]), or .to_pandas()": "df pandas toPandas frame to_df",
        "pa.Table.from_pandas(it.to_pandas())": "to_arrow arrow to_table",
        "len(it)": "size shape length num_rows", ".to_polars()": "pl polars",
        "it[:5]": "head show limit", "it[0]": "first iloc loc",
    },
    "History": {
        "ds.versions().to_pandas()": "columns groupby group_by agg describe iterrows itertuples "
        "set_index to_df df toPandas pandas frame to_dataframe to_frame", "ds.undo()": "pop undo",
        "ds.versions().to_pandas().query(\"operation == 'Append'\")": "filter where query search "
        "find select", "[v for v in ds.versions() if v.provenance]": "by_user author by_author",
        "ds.versions().to_pandas().query(\"timestamp > '2026-01-01'\")": "since until after before",
        "ds.versions().to_pandas().sort_values('timestamp')": "sort sort_values order_by sort_by",
        "ds.versions().to_table().to_pylist()": "to_pylist to_dicts to_dict fetchall rows",
        "ds.versions()[-1]": "latest last newest current head_version HEAD max",
        "ds.versions()": "show display list print collect log history all",
        "ds.checkout_version(1)": "get_version checkout get open load at",
        "ds.versions().numbers": "ids keys names version_ids versions",
        "ds.versions().to_table()": "to_arrow arrow to_arrow_table", "ds.diff(1)": "diff compare",
        CLEANUP: "vacuum cleanup delete expire remove drop clean",
        "len(ds.versions())": "size shape length num_versions",
        "list(ds.versions())": "tolist to_list items values", "ds.insert(df)": "append add extend",
        "ds.versions()[-1].timestamp": "timestamp time date",
        "ds.restore(1)": "restore rollback revert reset", "ds.versions()[::-1]": "reverse reversed",
        "ds.versions()[0]": "first iloc loc oldest min", "ds.tags.create('x', 1)": "tag create_tag",
        "ds.versions()[-5:]": "head tail limit recent", "ds.versions().to_polars()": "pl polars",
        "ds.plot.history()": "plot hist graph",
    },
    "Version": {
        "ds.versions()[-1].timestamp": "time date created created_at committed commit_time "
        "datetime committed_at timestamp_ms when", "ds.restore($version)": "restore rollback reset",
        "ds.versions()[-1].operation": "op action kind type operationMetrics operation_type "
        "summary operationParameters", "ds.tags.create('x', $version)": "tag create_tag add_tag",
        "ds.versions()[-1].read_version": "parent parent_id parent_version parents previous "
        "parent_snapshot_id", "ds.versions()[-1].total_bytes": "bytes num_bytes size_bytes nbytes",
        "ds.versions()[-1].version": "id number version_id snapshot_id num sha hash version_number "
        "name", "ds.versions()[-1].message": "commit_message comment description msg subject title",
        "ds.versions()[-1].num_data_files": "files data_files num_files manifest_list manifests",
        "ds.checkout_version($version).to_pandas()": "to_pandas to_table df head read to_polars",
        "ds.versions()[-1].provenance": "author user committer who userName user_name notebook",
        "ds.cleanup_old_versions(versions=[$version])": "delete remove drop expire",
        "ds.versions()[-1].writer": "engine engineInfo client library created_by",
        "ds.versions()[-1].num_rows": "rows row_count count count_rows size", "ds.undo()": "undo",
        "ds.checkout_version($version)": "checkout open load dataset as_of",
        "ds.checkout_version($version).schema": "schema columns schema_id",
        "ds.create_branch('x', $version)": "branch_from create_branch",
        "ds.changes($version)": "diff show changes compare stats",
        "ds.revert($version)": "revert backout", "ds.tags.to_pandas()": "tags refs",
    },
    "Tags": {
        "ds.tags.list()": "items values all show tolist list_tags to_dict to_pylist get_tags print "
        "log ls", "ds.tags.get_version('$tag')": "version version_of resolve rev_parse get_ref sha",
        "ds.tags['$tag']": "get checkout open get_dataset switch load get_tag checkout_tag read "
        "dataset", "ds.tags.delete('$tag')": "remove drop pop delete_tag remove_tag rm clear untag",
        "ds.tags.create('x')": "setdefault add new set_tag insert create_tag tag add_tag "
        "get_or_create", "ds.tags.list_ordered()[0]": "latest last newest first head current",
        "ds.tags.update('$tag', $version)": "set move retag replace update_tag force set_version",
        "ds.tags.to_pandas()": "to_df df toPandas pandas frame to_dataframe to_frame collect",
        "pa.table(ds.tags)": "to_arrow arrow to_table to_arrow_table", "list(ds.tags)": "to_list",
        "'$tag' in ds.tags": "exists has contains has_tag tag_exists",
        "ds.deep_clone('copy.lance')": "push pull fetch sync", "ds.tags.to_polars()": "pl polars",
        "ds.restore('$tag')": "restore rollback reset revert",
        "ds.tags.create('new', '$tag')": "rename copy", "ds.diff('$tag')": "diff compare plan",
        "len(ds.tags)": "count size num_tags",
    },
    "Branches": {
        "ds.branches['$branch']": "checkout switch get open get_dataset load use checkout_branch "
        "switch_branch set get_branch read", "ds.branches.rebase('$branch')": "rebase_onto update",
        "ds.branches.list()": "items values all show tolist list_branches to_dict to_pylist "
        "get_branches print ls list_all", "ds.branches['main']": "main master default trunk",
        "ds.branches.merge('$branch')": "fast_forward merge_into merge_branch ff squash merge_from "
        "fast_forward_branch", "pa.table(ds.branches)": "to_arrow arrow to_table to_arrow_table",
        "ds.branches.compare('$branch')": "diff status plan merge_base diff_branch merge_preview "
        "preview ahead behind", "ds.create_branch('new', ('$branch', None))": "rename copy move",
        "ds.branches.delete('$branch')": "remove drop pop delete_branch remove_branch rm "
        "drop_branch", "'$branch' in ds.branches": "exists has contains has_branch branch_exists",
        "ds.branches.create('x')": "add new branch new_branch insert create_branch add_branch fork",
        "ds.branches.to_pandas()": "to_df df toPandas pandas frame to_dataframe to_frame collect",
        "ds.branches['$branch'].versions()": "log history versions commits latest last newest",
        "ds.branch": "current active head name current_branch HEAD", "list(ds.branches)": "to_list",
        "ds.branches.cherry_pick('$branch', 2)": "pick cherrypick",
        "ds.checkout_latest()": "pull fetch sync refresh", "ds.plot.graph()": "plot graph network",
        "ds.undo()": "revert undo reset restore rollback", "ds.branches.to_polars()": "pl polars",
        "len(ds.branches)": "count size num_branches",
        "ds.deep_clone('copy.lance')": "push publish",
    },
    "TableIndices": {
        "ds.create_scalar_index('$key', 'BTREE')": "create add new create_index "
        "create_scalar_index insert build", "ds.prewarm_index('$index')": "prewarm load warm",
        "ds.indices.to_pandas()": "to_df df toPandas pandas frame to_dataframe to_frame collect",
        "ds.optimize.optimize_indices()": "optimize rebuild refresh reindex update merge",
        "ds.list_indices()": "all show to_dict to_dicts to_pylist list_indices describe",
        "pa.Table.from_pandas(ds.indices.to_pandas())": "to_arrow arrow to_table",
        "ds.stats.index_stats('$index')": "stats statistics index_stats",
        "ds.drop_index('$index')": "drop delete remove pop drop_index",
        "list(ds.indices)": "names tolist to_list list", "ds.describe_indices()": "status coverage",
        "'$index' in ds.indices": "exists has contains", "ds.indices.to_polars()": "pl polars",
    },
    "Constraints": {
        "ds.constraints.add('name', '$filter')": "create set insert check_constraint "
        "add_constraint append new update", "pa.table(ds.constraints)": "to_arrow arrow to_table",
        "ds.constraints.run()": "check validate verify test violations evaluate enforce is_valid "
        "holds", "ds.constraints.drop('name')": "delete remove pop drop_constraint clear",
        "ds.alter_columns({'path': '$number', 'nullable': False})": "not_null notnull nullable",
        "ds.constraints.list()": "names keys items values all show tolist to_list to_dict get",
        "ds.constraints.to_pandas()": "to_df df toPandas pandas frame to_dataframe to_frame",
        "ds.duplicates(['$key'])": "unique primary_key", "ds.constraints.to_polars()": "pl polars",
    },
    "LanceFragment": {
        "fragment.count_rows()": "num_rows size shape nrows row_count",
        "fragment.to_table()": "to_arrow arrow collect read to_polars",
        "fragment.to_table(filter='$filter')": "filter query where",
        "fragment.data_files()": "files paths file path data_file",
        "fragment.to_table(columns=['$key'])": "select columns",
        "ds.update({'$number': '$zero'})": "update set write", COMPACT: "compact optimize rewrite",
        "fragment.to_batches()": "scan iterrows batches", "fragment.fragment_id": "id fid index",
        "fragment.to_pandas()": "df pandas toPandas",
    },
    "MergeInsertBuilder": {
        "when_not_matched_insert_all()": "whenNotMatchedInsertAll when_not_matched_insert "
        "insert_all whenNotMatchedInsert whenNotMatched when_not_matched insert "
        "when_not_matched_then_insert whenNotMatchedInsertValues",
        "when_matched_update_all()": "whenMatchedUpdateAll when_matched_update update_all "
        "whenMatchedUpdate whenMatched when_matched update on_match_update "
        "when_matched_then_update on_duplicate_key_update", "preview(df)": "dry_run plan show head",
        "ds.update({'$number': '$zero'}, where='$key NOT IN (1, 2)')":
        "when_not_matched_by_source_update whenNotMatchedBySourceUpdate "
        "when_not_matched_by_source_update_all", "conflict_retries(3)": "retries retry max_retries",
        "when_not_matched_by_source_delete()": "when_not_matched_by_source "
        "whenNotMatchedBySourceDelete whenNotMatchedBySource delete_missing sync full_sync",
        "execute(df, schema_mode='merge')": "schema_mode withSchemaEvolution with_schema_evolution "
        "evolve_schema merge_schema", "ds.merge_insert('$key')": "on key keys match_on using_key",
        "execute(df)": "run merge source using apply commit write upsert save do submit to_table "
        "result collect", "when_matched_fail()": "when_matched_error insert_only fail_on_match",
        "execute(df, commit_message='message')": "message commit_message with_message "
        "set_commit_message", "when_matched_delete()": "whenMatchedDelete delete",
        "when_matched_update_all('source.rev > target.rev')": "where condition predicate filter "
        "when",
    },
    "DatasetOptimizer": {
        COMPACT: "compact executeCompaction rewrite z_order zorder zorder_by executeZOrderBy "
        "rewrite_data_files compaction bin_pack execute run all where repartition coalesce sort "
        "cluster_by defragment enable_auto_compact",
        "ds.optimize.optimize_indices()": "optimize indices reindex optimize_index update_indices "
        "refresh_index rebuild index", _AUTO: "auto_cleanup auto_vacuum schedule enable auto",
        CLEANUP: "vacuum cleanup cleanup_old_versions expire_snapshots gc clean expire_versions "
        "remove_orphan_files prune", "ds.optimize.disable_auto_cleanup()": "disable off",
        "ds.stats.dataset_stats()": "stats statistics info status describe metrics "
        "needs_compaction",
        "ds.explain.compact_files()": "plan dry_run preview explain estimate analyze",
    },
    "LanceStats": {
        "ds.stats.dataset_stats()": "summary rows num_rows describe to_pandas table_stats size "
        "count info fragments", "ds.stats.index_stats('$index')": "indices index indexes",
        "ds['$number'].statistics()": "min max mean nulls distinct column histogram",
        "ds.stats.data_stats()": "columns column_stats bytes fields nbytes data",
    },
    "Expression": {
        "lk.sql('SELECT *, CASE WHEN $column > 1 THEN 2 ELSE 3 END AS y FROM ds')": "when "
        "otherwise then where clip map if_else case", "lk.col('$column') ** 2": "pow power square",
        "lk.col('$column').rlike('^a')": "matches regexp_like str_contains match regexp regex "
        "regexp_matches search fullmatch", "lk.sql('SELECT bool_and($column > 1) FROM ds')": "all",
        'ds.to_table(columns={"y": "date_trunc(\'day\', $column)"})': "date_trunc truncate trunc "
        "date to_date strftime", "lk.col('$column').is_null()": "isnull isna is_na is_none IS_NULL",
        "ds.to_table(filter=lk.col('$column') > 1)": "filter collect to_list to_numpy values "
        "to_pandas show head item", "lk.sql('SELECT count($column) FROM ds')": "count value_counts",
        "ds.to_pandas()": "diff pct_change ffill bfill forward_fill backward_fill rolling split "
        "interpolate", "lk.sql('SELECT *, rank() OVER (ORDER BY $column) AS y FROM ds')": "rank",
        'ds.to_table(columns={"y": "date_part(\'$name\', $column)"})': "minute second quarter week "
        "dow doy", "lk.col('$column').upper()": "to_uppercase upper_case title capitalize to_upper",
        "ds.to_table(columns={\"y\": \"date_part('dow', $column)\"})": "weekday dayofweek "
        "day_of_week", "lk.col('$column').lower()": "to_lowercase lower_case casefold to_lower",
        "lk.sql('SELECT * FROM ds ORDER BY $column')": "asc desc sort sort_by sort_values order_by",
        "lk.sql('SELECT count(DISTINCT $column) FROM ds')": "n_unique nunique approx_n_unique",
        "ds.to_table(columns={'y': 'left($column, 3)'})": "substr substring slice left right",
        "lk.sql('SELECT *, lag($column) OVER (ORDER BY $column) AS y FROM ds')": "shift lag",
        "lk.sql('SELECT *, avg($column) OVER (PARTITION BY $text) AS y FROM ds')": "over",
        "lk.col('$column').is_not_null()": "notnull notna is_valid not_null is_not_none",
        "lk.sql('SELECT DISTINCT $column FROM ds')": "unique distinct drop_duplicates",
        "lk.col('$column').length()": "len len_chars char_length size str_len",
        "ds.to_table(columns={'y': 'nullif($column, 0)'})": "nullif null_if",
        "lk.col('$column').fill_null(0)": "fillna coalesce ifnull nvl fill",
        "(lk.col('$column') > 1) & (lk.col('$column') < 5)": "and_ or_ xor",
        "lk.sql('SELECT sum($column) FROM ds')": "sum total cumsum cum_sum",
        "lk.col('$column').concat('a')": "concat_str cat append concat_ws",
        "lk.sql('SELECT avg($column) FROM ds')": "mean avg average agg",
        "lk.sql('SELECT median($column) FROM ds')": "median quantile",
        "~lk.col('$column').is_in([1, 2])": "not_in is_not_in notin",
        "lk.sql('SELECT stddev($column) FROM ds')": "std var stddev",
        "ds.add_columns(function)": "map_elements apply map_batches",
        "ds.to_table(columns={'y': 'signum($column)'})": "sign sgn",
        "lk.col('$column').alias('y')": "as_ rename name_as label",
        "lk.col('$column').trim()": "strip str_strip strip_chars",
        "lk.col('$column').is_in([1, 2])": "in_ any_of one_of", "-lk.col('$column')": "neg negate",
        "lk.col('$column') + 1": "add sub mul truediv div mod",
        "lk.sql('SELECT bool_or($column > 1) FROM ds')": "any",
        "lk.col('$column').array_contains(1)": "list arr has",
        "~lk.col('$column')": "not_ invert is_false is_true", "lk.col('$column').is_nan()": "isnan",
        "lk.sql('SELECT min($column) FROM ds')": "min first",
        "lk.sql('SELECT max($column) FROM ds')": "max last", "lk.col('$column') > 1": "gt ge lt le",
        "lk.col('$column').field('y')": "struct get_field",
        "lk.col('$column').log()": "ln log10 log1p log2", "lk.col('$column').sql": "to_sql explain",
        "lk.col('$column') != 1": "ne neq is_not_equal",
        "ds.schema.field('$column').type": "dtype type",
        "lk.col('$column') == 1": "eq equals is_equal",
        "ds.drop_columns(['$column'])": "drop exclude",
    },
    "SqlResult": {
        "lk.sql(...).to_table().to_batches()": "fetch_record_batch iter_batches batches to_reader "
        "to_arrow_batch_reader fetch_arrow_reader toLocalIterator to_record_batches",
        "lk.sql(...).to_pandas()": "pivot pivot_table melt set_index nunique toPandas fetchdf "
        "fetch_df pandas fetch_df_chunk to_df to_dataframe loc iloc index",
        "lk.sql('SELECT * FROM r', r=lk.sql(...))": "alias cache persist createOrReplaceTempView "
        "create_view register to_view create_temp_view", "lk.sql(...).to_polars()": "polars lazy",
        "lk.write_dataset(lk.sql(...), 'new.lance')": "save write create to_lance saveAsTable "
        "insertInto write_dataset write_table writeTo", "ds.delete('$filter')": "delete",
        "lk.sql(...).to_table()": "arrow to_arrow collect execute fetch_arrow_table toArrow "
        "read_all result run to_arrow_table", "lk.sql(...).to_pandas().plot()": "plot hist boxplot",
        "lk.sql('SELECT DISTINCT $text FROM r', r=lk.sql(...))": "unique distinct drop_duplicates "
        "dropDuplicates value_counts", "lk.sql(...).schema": "dtypes types description printSchema",
        "lk.sql('SELECT $key FROM r', r=lk.sql(...))": "select project with_columns withColumn "
        "assign drop selectExpr", "lk.sql(...).fetchall()[0][0]": "item scalar fetchval squeeze",
        "lk.sql('SELECT * FROM r ORDER BY $number', r=lk.sql(...))": "sort order orderBy order_by "
        "sort_values sort_by", "lk.sql('EXPLAIN SELECT * FROM ds')": "explain query_plan analyze",
        "lk.sql('SELECT $text, $mean FROM r GROUP BY $text', r=lk.sql(...))": "groupby group_by "
        "groupBy aggregate agg", "lk.sql(...).to_pandas().describe()": "describe summary info",
        "lk.sql('SELECT * FROM r UNION ALL SELECT * FROM r', r=lk.sql(...))": "union unionAll "
        "concat append", "lk.sql(...).to_pandas().to_numpy()": "fetchnumpy to_numpy numpy values",
        "lk.sql(...).to_table().to_pylist()": "to_pylist to_pydict to_dicts to_dict records "
        "iter_rows", "lk.sql('SELECT * FROM r WHERE $filter', r=lk.sql(...))": "filter where query",
        "pq.write_table(lk.sql(...).to_table(), 'x.parquet')": "write_parquet to_parquet export",
        "lk.sql('SELECT * FROM r JOIN df USING ($key)', r=lk.sql(...))": "join merge crossJoin",
        "lk.sql(...).fetchall()": "fetch fetchmany rows iterrows tolist to_list itertuples",
        "lk.sql(...).head()": "show display print glimpse tail limit take preview sample",
        "lk.sql(...).to_pandas().to_csv('x.csv')": "to_csv write_csv to_excel to_json",
        "lk.sql('SELECT $mean FROM r', r=lk.sql(...))": "sum mean min max median avg",
        "lk.sql(...).fetchall()[0]": "fetchone first one take_first",
        "len(lk.sql(...))": "count height size rowcount n_rows",
        "lk.sql(...).schema.names": "names column_names keys",
        "ds.insert(lk.sql(...))": "insert append_to into",
        "lk.sql(...)  # it needs no closing": "close",
    },
    "Answer": {
        "the call alone, because it has committed": "execute commit run save collect close flush "
        "wait result apply done",
        "len(ds), or ds.diff()": "num_rows rows count rowcount num_inserted num_inserted_rows "
        "inserted rows_inserted",
        "ds.validate() alone, which raises an error for damage": "ok errors valid passed is_valid",
    },
    "UpdateResult": {
        "ds.undo(), because it has run, then ds.update({'$number': '$zero'}, where='$filter')":
        "where filter query predicate when", **_RAN,
    },
    "DeleteResult": {
        "ds.undo(), because it has run, then ds.delete('$filter')": "where filter query predicate "
        "when", **_RAN,
    },
    "MergeResult": _RAN,
    "BranchComparison": {
        "ds.branches.compare('x').theirs_diff.to_pandas()": "to_pandas show head df rows diff "
        "to_table changes", "ds.branches.merge('x')": "merge apply execute run",
    },
    "ColumnSummary": {
        "ds.to_pandas().describe()": "to_pandas quantile percentiles describe to_dict",
        "ds['$column'].statistics().distinct": "nunique n_unique unique cardinality",
        "ds['$column'].statistics().nulls": "null_count num_nulls isna missing",
        "lk.sql('SELECT $name($column) FROM ds')": "sum median stddev",
        "lk.sql('SELECT stddev($column) FROM ds')": "std var variance",
        "lk.sql('SELECT avg($column) FROM ds')": "mean avg average",
        "ds['$column'].statistics().rows": "count size num_rows",
    },
    "SqlQueryBuilder": _QUERY, "SqlQuery": _QUERY,
}  # fmt: skip

#: lines for arguments that do not fit; searched before the lines of the dataset
ARGUMENTS_OF_PARTS: tuple[tuple[str, str, str], ...] = (
    ("SqlResult.head", "lk.sql(...).head($value)", "n rows limit"),
    ("merge_insert", UPSERT, "(more) (wrong) source data source_table predicate source_alias "
     "target_alias other condition"), ("Tags.create", "ds.tags.create('x')", "(missing) (wrong)"),
    ("merge_insert", "ds.merge_insert($value)", "key keys left_on right_on using by merge_key "
     "join_cols"),
    ("Tags.create", "ds.tags.create('x', $value)", "version at branch ref revision snapshot_id "
     "source commit"),
    ("Tags.update", "ds.tags.update('name', 1)", "(missing) (wrong) version ref"),
    ("Tags.delete", "ds.tags.delete('name')", "(missing) (wrong) (more) name"),
    ("Branches.create", "ds.branches.create('x', $value)", "version at source ref revision "
     "source_reference from_"), ("Branches.create", "ds.branches.create('x')", "(missing) (wrong)"),
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
    ("Constraints.add", "ds.constraints.add('name', '$filter')", "(missing) (more) expr check "
     "constraint"), ("Constraints.drop", "ds.constraints.drop('name')", "(missing) (wrong)"),
)  # fmt: skip

#: the lines of operators, by class
OPERATORS_OF_PARTS: Mapping[str, Lines] = {
    "DatasetDiff": {
        "d.to_table()[$shown], or d.sample()": "__getitem__", "d.to_batches()": "__iter__",
        "d.to_pandas()": "__array__",
    },
    "History": {CLEANUP: "__delitem__", "ds.restore(1)": "__setitem__"},
    "": {"it without with": "__enter__ __exit__"},  # of all classes
    "Answer": {"the attributes version and branch, or ds.diff()": "__getitem__"},
    "ColumnSummary": {"ds['$column'].statistics().min, or another attribute": "__getitem__"},
    "DatasetOptimizer": {COMPACT: "__call__"}, "Plots": {"ds.plot.columns(1)": "__call__"},
    "LanceStats": {"ds.stats.dataset_stats()": "__call__"},
    "Explainer": {"ds.explain.to_table(), or ds.explain.delete('$filter')": "__call__"},
    "SqlResult": {
        "lk.sql('SELECT * FROM r UNION ALL SELECT * FROM r', r=lk.sql(...))": "__add__",
        "lk.sql('SELECT *, 1 AS $item FROM r', r=lk.sql(...))": "__setitem__",
        "lk.sql(...).to_table()['column'], or .fetchall()[0]": "__getitem__",
        "lk.sql(...).to_pandas().drop(columns='$item')": "__delitem__",
        "lk.sql(...).to_pandas()": "__array__", "lk.sql(...).fetchall()": "__iter__",
    },
    "Tags": {
        "ds.tags.create('$item', $value)": "__setitem__", "ds.tags.delete('$item')": "__delitem__",
        "ds.tags.list()": "__call__",
    },
    "Branches": {
        "ds.branches.delete('$item')": "__delitem__", "ds.create_branch('$item')": "__setitem__",
        "ds.branches.list()": "__call__",
    },
    "MergeInsertBuilder": {
        "execute(df)": "__call__",
    },
    "TableIndices": {
        "ds.create_scalar_index('$item', 'BTREE')": "__setitem__", "ds.list_indices()": "__call__",
        "ds.drop_index('$item')": "__delitem__",
    },
    "Constraints": {
        "ds.constraints.add('$item', $value)": "__setitem__",
        "ds.constraints.list()": "__call__ __getitem__",
        "ds.constraints.drop('$item')": "__delitem__",
    },
}  # fmt: skip

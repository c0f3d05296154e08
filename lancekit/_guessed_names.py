"""Names that users of other tools type first, with the line that does it in lancekit.

The names come from pandas, Polars, DuckDB, PySpark, delta-rs, pyiceberg, LanceDB, lakeFS and git.
`lancekit._guesses` looks them up after a miss, and explains the placeholders of the lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancekit._guessed_parts import ARGUMENTS_OF_PARTS, OPERATORS_OF_PARTS, PARTS, Lines
from lancekit._guessed_parts import CLEANUP as _CLEANUP
from lancekit._guessed_parts import COMPACT as _COMPACT
from lancekit._guessed_parts import UPSERT as _UPSERT

_SORTED = "lk.sql('SELECT * FROM ds ORDER BY $number')"
_GROUPED = "lk.sql('SELECT $text, $mean FROM ds GROUP BY $text')"
_MEAN = "lk.sql('SELECT $mean FROM ds')"
_DISTINCT = "lk.sql('SELECT DISTINCT $text FROM ds')"
_READ = "ds.to_table(columns=['$column'])['$column']"
_TOP = "ds['$text'].statistics().top"
_NULLS = "ds['$number'].statistics().nulls"
RENAME = "ds.alter_columns({'path': '$number', 'name': 'new_name'})"
_CAST = "ds.alter_columns({'path': '$number', 'data_type': pa.float32()})"

#: the lines of unknown attributes, by class
NAMES: Mapping[str, Lines] = {
    "lance": {
        "lk.sql('SELECT *, CASE WHEN $number > 3 THEN 1 ELSE 0 END AS y FROM ds')": "when",
        "lk.write_dataset(pl.scan_iceberg('t').collect(), 'new.lance')": "read_iceberg",
        "ds.export('rows.parquet')": "to_parquet to_csv write_csv write_parquet",
        "lk.write_dataset(pd.read_json('rows.json'), 'new.lance')": "read_json",
        "lk.options.engine = 'local'": "set_option set_options config_context",
        "lk.sql('SHOW TABLES')": "list_tables list_datasets table_names",
        "lk.read_parquet('rows.parquet')": "scan_parquet from_parquet",
        "lk.sql('SELECT * FROM ds')": "execute read_sql table", _MEAN: "sum count max min avg mean",
        "lk.LanceDataset.drop(uri)": "drop_table delete drop", "ds.insert(df)": "concat append",
        "lk.options": "config get_option settings Config", "lk.dataset(uri).branches": "branches",
        "lk.diff(ds.checkout_version(1), ds)": "compare", "lk.__version__": "version show_versions",
        "lk.read_csv('rows.csv')": "scan_csv from_csv", "lk.dataset(uri).tags": "tags",
        "ds.to_table(filter='$filter')": "expr filter",
        "lk.col('$number')": "F functions Expr field", "lk.col('$number').fill_null(0)": "coalesce",
        "lk.dataset(uri)": "read open load read_table load_table open_table open_dataset Dataset "
        "Table DeltaTable read_lance read_dataset scan scan_lance get_dataset LanceTable connect "
        "from_uri load_dataset Connection connect_async forPath exists",
        "lk.write_dataset(df, 'new.lance')": "from_pandas from_arrow from_polars DataFrame "
        "from_dict from_records write save write_table write_lance to_lance create_table create "
        "write_deltalake",
        "lk.spark_session()": "spark_context SparkSession session get_spark builder "
        "configure_spark_with_delta_pip",
        "lk.write_dataset(pd.$name('rows'), 'new.lance')": "read_excel read_feather read_pickle "
        "read_orc",
        "lk.write_dataset(pl.$name('rows'), 'new.lance')": "read_ndjson read_delta read_ipc "
        "read_avro",
    },
    "LanceDataset": {
        # size and content
        "ds.to_table(columns=['$key'])": "select project select_columns get_column columns_select",
        _SORTED: "sort_values sort orderBy order_by sort_by nlargest nsmallest rank top_k arrange",
        _GROUPED: "groupby agg group_by groupBy aggregate rollup cube summarise summarize",
        "lk.sql('SELECT * FROM ds JOIN df USING ($key)')": "join join_asof crossJoin",
        "ds['$text'].statistics().distinct": "nunique n_unique approx_n_unique",
        "ds.export('x.csv')": "to_csv to_json write_csv to_excel to_feather",
        "ds.head()": "show display glimpse preview peek print to_string", "ds[-5:]": "tail last",
        "ds.to_spark()": "toDF spark to_spark_df spark_df to_dataframe", "ds.scanner()": "scan",
        _DISTINCT: "unique distinct dropDuplicates drop_duplicates_sql",
        "ds.to_pandas().to_numpy()": "values to_numpy numpy as_matrix",
        _NULLS: "isna isnull null_count notna notnull is_null isNull",
        "len(ds)": "height num_rows nrows row_count length rowcount", "ds.to_polars()": "pl polars",
        "ds.export('x.parquet')": "to_parquet write_parquet copy_to",
        "lk.scan_polars(ds)": "lazy to_lazy lazyframe to_lazyframe", _TOP: "value_counts mode freq",
        "ds.schema.names": "column_names names field_names fields", "ds.count_rows()": "size count",
        "ds.uri": "path location name table_uri _path table_path",
        "ds.take([3])": "loc iloc at_row row get_row iat xs get",
        "lk.sql('SELECT * FROM ds')": "execute_sql read_sql run",
        "ds.to_pandas().describe()": "describe summary profile",
        "ds.plot.columns(1)": "hist boxplot scatter bar line",
        _MEAN: "mean sum min max median std var avg quantile",
        "ds.to_pandas().set_index('$key')": "set_index", "ds.head(1)": "first fetchone take_first",
        "len(ds.columns)": "width num_columns ncols", "ds.sample(5)": "random shuffle sample_rows",
        "ds['$number']": "column get_col col series", "ds.head(3)": "limit fetch fetchmany top",
        "len(ds) == 0": "empty is_empty isEmpty",
        "ds.schema": "info schema_arrow printSchema print_schema arrow_schema describe_schema "
        "explain_schema get_schema",
        "ds.to_pandas()": "index set_axis df toPandas fetchdf pandas pivot_table pivot explode "
        "reset_index corr melt unstack stack rolling resample interpolate plotly T to_df cumsum "
        "shift pct_change to_sql style",
        "ds.to_table(filter='$filter')": "query filter where search_rows mask find get_rows eval "
        "select_rows",
        "ds.to_table()": "collect to_arrow arrow read_all read fetch_arrow_table to_pyarrow_table "
        "toArrow fetchall_arrow read_table execute to_arrow_table",
        "ds.to_table().to_pylist()": "to_dict to_dicts to_pylist to_records tolist to_list "
        "fetchall rows iter_rows toJSON fetchnumpy",
        "ds.to_batches()": "iterrows itertuples items iterate to_iter batches iter_batches "
        "to_reader to_pyarrow_dataset to_arrow_batch_reader to_record_batches iter_slices "
        "fetch_record_batch toLocalIterator foreach to_torch",
        # rows
        "ds.delete('$filter')": "delete_rows remove drop_rows delete_where remove_rows",
        "lk.write_dataset(df, uri, mode='overwrite')": "overwrite replace replace_all",
        "ds.to_table(filter='$number IS NOT NULL')": "dropna drop_nulls na",
        "ds.duplicates(['$key'])": "drop_duplicates deduplicate dedupe",
        "ds.truncate_table()": "truncate clear delete_all empty_table",
        "ds.duplicates()": "duplicated is_duplicated find_duplicates",
        "lk.write_dataset(df, uri, mode='append')": "writer writeTo",
        "ds.insert(df)": "append add extend write insert_into concat union unionAll vstack "
        "insert_rows add_rows append_rows insertInto saveAsTable write_dataset put ingest "
        "insert_many append_data",
        _UPSERT: "upsert merge_into mergeInto insert_or_update merge_rows update_or_insert "
        "upsert_rows",
        "ds.update({'$number': '$zero'}, where='$number IS NULL')": "fillna fill_null fill_nan "
        "ffill bfill",
        "ds.update({'$number': '$zero'})": "set update_rows set_value updateAll replace_values "
        "update_where",
        # columns
        _CAST: "astype cast change_type convert_dtypes cast_column",
        "ds.add_columns({'new': '1'})": "assign with_columns withColumn add_column insert_column "
        "with_column withColumns mutate hstack",
        "ds.add_columns(function)": "apply map transform map_batches applymap mapInPandas "
        "map_rows map_partitions",
        RENAME: "rename withColumnRenamed rename_columns rename_column withColumnsRenamed "
        "set_column_names update_schema evolve_schema",
        "ds.drop_columns(['$number'])": "pop drop_column delete_column delete_columns "
        "remove_column dropColumn remove_columns",
        "ds.alter_columns({'path': '$number', 'nullable': True})": "alter_column alter "
        "change_column",
        # versions
        "ds.insert(df, commit_message='message')": "commit_message message set_commit_message",
        "ds.diff()": "status compare equals compare_versions diff_versions what_changed",
        "ds.checkout_version(1), or ds.branches['x']": "checkout",
        "ds.shallow_clone('copy.lance')": "clone fork link", "ds.undo()": "redo uncommit undo_last",
        "ds.branches.cherry_pick('x', 2)": "cherry_pick", "ds.revert(ds.version)": "backout",
        "ds.versions()": "history log list_versions snapshots get_versions show_history commits "
        "version_history describe_history get_history changelog transactions_log metadata_log",
        "ds.version": "version_number current_version get_current_version snapshot_id "
        "current_snapshot",
        "ds.checkout_version(1)": "load_as_version load_version as_of time_travel at_version "
        "versionAsOf version_as_of snapshot_at use_version asof snapshot",
        "ds.branches['x']": "switch checkout_branch use_branch switch_branch set_branch "
        "get_branch open_branch",
        "ds.restore(1)": "restoreToVersion rollback rollback_to_snapshot reset restore_version "
        "revert_to reset_to rollback_to restore_to set_current_snapshot restoreToTimestamp",
        "ds.checkout_latest()": "refresh reload update_incremental pull fetch_latest sync "
        "update_to_latest checkout_newest",
        _CLEANUP: "vacuum expire_snapshots cleanup gc remove_orphan_files clean prune purge "
        "delete_old_versions remove_old_versions expire_versions",
        "ds.changes(1)": "changes_since cdf load_cdf change_feed table_changes incremental "
        "get_changes read_change_feed",
        "ds.deep_clone('copy.lance')": "copy push backup export_to save clone_to duplicate "
        "to_lance",
        # branches and tags
        "ds.create_branch('x')": "stash new_branch branch_create add_branch make_branch",
        "ds.branches.list()": "list_branches get_branches show_branches branch_list",
        "ds.branches.delete('x')": "delete_branch drop_branch remove_branch",
        "ds.tags.create('x')": "create_tag tag add_tag new_tag set_tag",
        "ds.tags.delete('x')": "delete_tag drop_tag remove_tag",
        "ds.tags.list()": "list_tags get_tags show_tags", "ds.branches.merge('x')": "merge_branch",
        "ds.branches.rebase('x')": "rebase",
        # files, indices, settings
        "ds.config()": "properties table_properties get_config tblproperties options settings",
        "lk.write_dataset(ds.to_table(), 'new.lance', primary_key='$key')": "set_primary_key",
        "ds.create_index('vector', 'IVF_PQ')": "create_vector_index create_ann_index",
        "ds.stats.dataset_stats()": "detail describe_table statistics table_stats",
        "ds.validate()": "verify fsck repair check_integrity integrity_check", "ds.columns": "keys",
        "ds.explain.delete('$filter')": "dry_run preview_delete plan", "len(ds.shape)": "ndim",
        "ds.get_fragments()": "fragments partitions list_fragments",
        "ds.lance_schema.unenforced_primary_key()": "primary_key", "ds.to_table().nbytes": "nbytes",
        "lk.cache_info()": "cache persist unpersist checkpoint",
        "ds.constraints": "list_constraints get_constraints", "ds.metadata": "get_metadata attrs",
        "ds.explore()": "explorer browse view gui edit", "ds.to_table().to_pydict()": "to_pydict",
        "ds.all_files()": "files file_uris list_files input_files inputFiles data_files "
        "get_add_actions",
        _COMPACT: "compact compact_files repartition coalesce rewrite_data_files compaction "
        "optimize_table rewrite vacuum_analyze optimize_files",
        "ds.optimize.optimize_indices()": "reindex update_index optimize_index update_indices "
        "refresh_index",
        "ds.describe_indices()": "indexes list_indexes get_indices show_indexes list_index "
        "index_stats",
        "ds.create_scalar_index('$key', 'BTREE')": "add_index create_btree_index create_indexes "
        "make_index z_order zorder cluster_by clusterBy ensure_index sort_index",
        "ds.create_scalar_index('$text', 'INVERTED')": "create_fts_index create_full_text_index "
        "create_text_index",
        "ds.to_table(nearest={'column': 'vector', 'q': query, 'k': 10})": "search vector_search "
        "nearest knn similarity_search nearest_neighbors ann",
        "ds.to_table(full_text_query='words')": "full_text_search fts text_search match "
        "search_text",
        "ds.constraints.add('name', '$filter')": "add_constraint create_constraint set_constraint "
        "check add_check",
        "ds.update_config({'key': 'value'})": "set_properties set_tblproperties set_config "
        "set_table_properties update_properties",
        "ds.create_temp_view('t')": "createOrReplaceTempView createTempView create_view "
        "registerTempTable to_view register",
        "ds.insert(df)  # each call commits by itself": "commit_changes begin transaction close "
        "flush",
    },
    "DatasetColumn": {
        "ds.to_table(columns={'y': 'upper($column)'})": "str upper lower strip replace contains",
        "ds['$column'].statistics().distinct": "nunique n_unique cardinality approx_n_unique",
        "ds['$column'].statistics().top": "value_counts hist mode top freq histogram counts",
        "ds.to_table(columns={'y': lk.col('$column').$name()})": "year month day round abs",
        "ds.alter_columns({'path': '$column', 'data_type': pa.float32()})": "astype cast",
        "lk.sql('SELECT DISTINCT $column FROM ds')": "unique distinct drop_duplicates",
        "ds.update({'$column': '0'}, where='$column IS NULL')": "fillna fill_null",
        "lk.sql('SELECT * FROM ds ORDER BY $column')": "sort_values sort order_by",
        "ds['$column'].statistics()": "describe summary plot stats info profile",
        "ds.alter_columns({'path': '$column', 'name': 'new_name'})": "rename",
        "ds.to_table(filter=lk.col('$column').is_in([...]))": "isin is_in",
        "ds.create_scalar_index('$column', 'BTREE')": "create_index index",
        "ds.to_table(filter=lk.col('$column').between(1, 2))": "between",
        "ds.add_columns(function)": "map apply transform map_elements",
        "lk.sql('SELECT median($column) FROM ds')": "median quantile",
        "lk.sql('SELECT stddev($column) FROM ds')": "std var stddev",
        "ds.to_table(columns={'y': lk.col('$column').year()})": "dt",
        "lk.sql('SELECT avg($column) FROM ds')": "mean average avg",
        "ds.drop_columns(['$column'])": "drop delete remove pop",
        "ds.to_table(columns={'new_name': '$column'})": "alias",
        "ds.to_table(columns={'y': 'length($column)'})": "len",
        "lk.sql('SELECT sum($column) FROM ds')": "sum total",
        "ds.delete('$column IS NULL')": "dropna drop_nulls",
        "ds['$column'].type": "dtype data_type arrow_type",
        "ds['$column'].statistics().min": "min minimum", "ds['$column'].path": "name column_name",
        "ds['$column'].statistics().max": "max maximum",
        "len(ds)": "size count shape length num_rows",
        "ds['$column'].statistics().nulls": "isna isnull is_null null_count notna notnull isNull "
        "has_nulls hasnans",
        _READ: "to_pandas to_list tolist to_numpy to_arrow to_pylist collect head values array "
        "to_table data take sample tail loc iloc to_frame items",
    },
    "DatasetColumn, not a number": {
        "ds['$column'].statistics()": "mean average avg sum total std median quantile",
    },
    **PARTS,
}  # fmt: skip

#: the lines of arguments that do not fit: a parameter that the function has, or the name of the
#: function; the line, with ``$name`` and ``$value``; the unknown arguments.  ``(missing)``,
#: ``(more)`` and ``(wrong)`` mean a missing argument, too many, and a value of a wrong type.
ARGUMENTS: tuple[tuple[str, str, str], ...] = (
    *ARGUMENTS_OF_PARTS,
    ("filter", "filter=$value", "where predicate query filters row_filter condition mask expr"),
    ("columns", "columns=$value", "select usecols projection fields column selected_fields"),
    ("column_types", "column_types={'zip': pa.string()}", "dtype dtypes types schema_overrides "
     "converters"),
    ("sample", "ds.sample(5)", "frac fraction n size seed random_state (missing)"),
    ("limit", "limit=$value, or ds.head(3)", "n nrows num_rows n_rows head rows count k"),
    ("offset", "offset=$value", "skip skiprows start"), ("head", "ds.head($value)", "n rows limit"),
    ("order_by", "order_by=$value", "order sort_by sort orderBy ordering by"),
    ("asof", "asof=$value", "timestamp as_of timestampAsOf time date at when"),
    ("version", "version=$value", "tag ref revision versionAsOf snapshot_id "
     "version_as_of snapshot"),
    ("mode", "mode='overwrite'", "overwrite replace exist_ok"),
    ("mode", "mode='append'", "append"),
    ("mode", "mode='append' or mode='overwrite'", "if_exists"),
    ("primary_key", "primary_key=$value", "key keys pk primary_keys id_column unique index_col"),
    ("where", "where=$value", "predicate filter condition query on"),
    ("older_than", "older_than=timedelta(days=7)", "days retention_hours age keep_days hours "
     "retention older_than_days before (wrong)"),
    ("retain_versions", "retain_versions=$value", "keep keep_last num_versions retain_last "
     "versions"),
    ("max_rows_per_file", "max_rows_per_file=1_000_000", "row_group_size rows_per_file chunksize "
     "chunk_size"),
    ("storage_options", "storage_options={'region': 'eu-west-1'}", "s3 credentials filesystem "
     "options storage"),
    ("write_dataset", "ds.create_scalar_index('day', 'ZONEMAP')", "partition_by partitionBy "
     "partition_cols partition_on cluster_by"),
    ("write_dataset", "df.reset_index(drop=True)", "index preserve_index"),
    ("dataset", "ds.to_table(columns=['id'])", "columns filter usecols limit"),
    ("filter", "ds.checkout_version(1)", "version asof tag branch timestamp"),
    ("delete", "ds.delete($value)", "where filter condition query expr"),
    ("delete", "ds.delete('$filter')", "(missing)"), ("update", "ds.update($value)", "set values"),
    ("update", "ds.update({'$number': '$zero'})", "(missing) (wrong) (more)"),
    ("merge", _UPSERT, "on how left_index right_index (missing)"),
    ("commit", "ds.insert(df, commit_message='message')", "(missing)"),
    ("create_branch", "ds.create_branch('x', $value)", "version at from_version parent ref source"),
    ("add_columns", "ds.add_columns({'new': '1'})", "(missing) (wrong) (more)"),
    ("alter_columns", RENAME, "(missing) (wrong) (more)"), ("insert", "ds.insert(df)", "(missing)"),
    ("create_scalar_index", "ds.create_scalar_index('$key', 'BTREE')", "(missing)"),
    ("create_index", "ds.create_scalar_index('$key', 'BTREE')", "(missing)"),
    ("undo", "ds.restore(1), or ds.revert($version) for one change", "(more) steps n version"),
    ("restore", "ds.restore($value)", "tag ref"),
    ("diff", "lk.diff(ds.checkout_version(1), ds)", "(missing)"),
    ("order_by", "order_by=[lk.ColumnOrdering('$number', ascending=False)]", "descending"),
    ("read_csv", "lk.read_csv('rows.csv').to_table(columns=$value)", "columns usecols"),
    ("read_csv", "lk.read_csv('rows.csv').head($value)", "nrows n_rows"),
    ("read_csv", "lk.write_dataset(pd.read_csv('rows.csv', $name=$value), 'new.lance')", "sep "
     "delimiter index_col parse_dates skiprows names header encoding na_values decimal"),
    ("read_csv", "lk.write_dataset(pl.read_csv('rows.csv', $name=$value), 'new.lance')",
     "separator has_header skip_rows new_columns null_values"),
    ("read_parquet", "lk.read_parquet('rows.parquet').to_table(columns=$value)", "columns"),
)  # fmt: skip

#: the values that are meant by others, by argument: a value, and the texts that it answers
VALUES: Mapping[str, Lines] = {
    "mode": {
        "create": "error errorifexists x new fail error_if_exists ErrorIfExists w- ignore",
        "overwrite": "w replace truncate create_or_replace write drop",
        "append": "a insert add into",
    },
    "conflicts": {"ours": "left mine target", "theirs": "right source", "fail": "error raise"},
    "by": {"row": "rows", "cell": "cells column value"},
    "index_type": {
        "BTREE": "btree B-TREE tree sorted", "INVERTED": "FTS fts full_text text inverted",
        "BITMAP": "bitmap", "IVF_PQ": "ivf_pq vector ann IVF",
    },
}  # fmt: skip

#: the lines of operators and of other uses by Python, by class
OPERATORS: Mapping[str, Lines] = {
    "LanceDataset": {
        "ds.insert(df)": "__add__ __radd__ __iadd__",
        "ds.insert(df)  # each call commits by itself": "__enter__ __exit__",
        "ds.to_table(filter='$filter')": "__gt__ __lt__ __ge__ __le__ __invert__ __and__ __or__",
        "ds.to_pandas(), or ds.to_pandas().to_numpy()": "__array__",
        "ds.update({'$number': lk.col('$number') * 2})": "__neg__ __mul__ __truediv__",
        "ds.diff()": "__sub__",
            },
    "DatasetColumn": {
        _READ: "__array__",
        "lk.col('$column') $symbol $operand": "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ "
        "__truediv__ __rtruediv__ __mod__ __neg__ __abs__ __floordiv__ __pow__",
        "ds.to_table(filter=\"$condition\")": "__gt__ __lt__ __ge__ __le__ __eq__ __ne__ "
        "__invert__ __and__ __or__",
        f"ds.take([0], columns=['$column']), or {_READ}": "__getitem__",
        f"len(ds), or {_READ}": "__len__",
        "ds.update({'$column': lk.col('$column') $symbol $operand})": "__iadd__ __isub__ __imul__",
    },
    **OPERATORS_OF_PARTS,
}  # fmt: skip

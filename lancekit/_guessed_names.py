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

_MEAN = "lk.sql('SELECT $mean FROM ds')"
_DISTINCT = "lk.sql('SELECT DISTINCT $text FROM ds')"
_READ = "ds.to_table(columns=['$column'])['$column']"
RENAME = "ds.alter_columns({'path': '$number', 'name': 'new_name'})"

#: the lines of unknown attributes, by class
NAMES: Mapping[str, Lines] = {
    "lance": {
        "lk.dataset(uri)": "read open load read_table load_table open_table open_dataset Dataset "
        "Table DeltaTable read_lance read_dataset scan scan_lance get_dataset LanceTable connect "
        "from_uri load_dataset Connection connect_async forPath exists load_catalog load_from_disk "
        "repository checkout LanceDB describe is_dataset", "lk.scan_polars(ds)": "LazyFrame lazy",
        "lk.write_dataset(df, 'new.lance')": "from_pandas from_arrow from_polars DataFrame "
        "from_dict from_records from_spark arrow_table write save write_table write_lance to_lance "
        "create_table create write_deltalake createDataFrame from_dicts Series "
        "convert_to_deltalake init", "lk.read_parquet('rows.parquet')": "scan_parquet from_parquet",
        "pa.schema({'id': pa.int64()})": "Schema pydantic LanceModel Vector StructType DataType "
        "types Int64 int64 Float64 float64 string String Utf8 dtypes Field", "ds.to_table()": "all",
        "lk.write_dataset(pd.$name('rows'), 'new.lance')": "read_excel read_feather read_pickle "
        "read_orc read_hdf read_fwf read_html read_xml read_stata read_sas", _MEAN: "avg mean",
        "lk.write_dataset(pl.read_database(query, connection), 'new.lance')": "read_database "
        "read_sql_table read_sql_query read_database_uri", "lk.dataset(uri).branches": "branches",
        "lk.sql('SHOW TABLES')": "ls list_tables list_datasets table_names show_tables tables "
        "list_namespaces Catalog catalog namespace", "lk.read_csv('rows.csv')": "scan_csv from_csv",
        "ds.to_pandas()": "get_dummies cut qcut melt pivot pivot_table merge_asof crosstab "
        "json_normalize to_numeric explode", "ds.deep_clone('copy.lance')": "clone copy deep_clone",
        "lk.write_dataset(pd.read_json('rows.json', lines=True), 'new.lance')": "scan_ndjson "
        "read_jsonl read_json_lines", "ds.add_columns(function)": "embeddings pandas_udf map apply",
        "lk.spark_session()": "spark_context SparkSession session get_spark builder "
        "configure_spark_with_delta_pip", "pd.date_range('2026-11-02', '2026-11-05')": "date_range",
        "ds.to_table(order_by=[lk.ColumnOrdering('$number', ascending=False)])": "desc asc "
        "order_by sort", "lk.lit(datetime.datetime.now())": "current_timestamp now localtimestamp",
        "lk.sql('SELECT *, $name() OVER (ORDER BY $number) AS y FROM ds')": "row_number rank "
        "dense_rank", "lk.sql('SELECT $name($number) FROM ds')": "sum count max min median stddev",
        "lk.write_dataset(pl.$name('rows'), 'new.lance')": "read_ndjson read_delta read_ipc "
        "read_avro", "lk.sql('SELECT * FROM ds')": "execute read_sql table from_query QueryBuilder",
        "lk.sql('SELECT * FROM ds UNION ALL SELECT * FROM df')": "concat union "
        "concatenate_datasets", "lk.write_dataset(pd.DataFrame(array), 'new.lance')": "from_numpy",
        "lk.write_dataset(pl.scan_iceberg('t').collect(), 'new.lance')": "read_iceberg "
        "scan_iceberg", "ds.export('rows.parquet')": "to_parquet to_csv write_csv write_parquet",
        "lk.sql('SELECT *, row_number() OVER (ORDER BY $number) AS y FROM ds')": "Window "
        "WindowSpec", "lk.write_dataset(pd.read_json('rows.json'), 'new.lance')": "read_json",
        "lk.LanceDataset.drop(uri)": "drop_table delete drop drop_dataset delete_dataset remove rm",
        "ds.to_table(nearest={'column': 'vector', 'q': query, 'k': 10})": "nearest_to search",
        "lk.sql('SELECT count(DISTINCT $text) FROM ds')": "count_distinct n_unique nunique",
        "lk.lit(datetime.datetime(2026, 11, 2))": "datetime to_datetime date to_timestamp",
        "lk.sql('SELECT *, CASE WHEN $number > 3 THEN 1 ELSE 0 END AS y FROM ds')": "when",
        "lk.sql('SELECT *, $name($number) OVER (ORDER BY $key) AS y FROM ds')": "lag lead",
        "lk.options.engine = 'local'": "set_option set_options config_context",
        "lk.write_dataset(pl.read_delta('table'), 'new.lance')": "scan_delta",
        "lk.lit(datetime.timedelta(days=1))": "duration timedelta", "lk.dataset(uri).tags": "tags",
        "lk.col('$number')": "F functions Expr field f column c", "ds.insert(df)": "append insert",
        "lk.col('$number').fill_null(0)": "coalesce ifnull nvl", _UPSERT: "merge upsert merge_into",
        "lk.lit(datetime.date.today())": "today current_date", "lk.errors": "exceptions exc",
        "lk.col('$text').concat('a')": "concat_str concat_ws", _DISTINCT: "unique distinct",
        "ds.to_table(filter='$filter')": "expr filter where",
        "lk.col('$number').is_null()": "isna isnull notna",
        "lk.options": "config get_option settings Config",
        "lk.sql('SELECT stddev($number) FROM ds')": "std",
        "lk.diff(ds.checkout_version(1), ds)": "compare", "lk.__version__": "version show_versions",
        "lk.sql('SELECT count(*) FROM ds')": "len n",
    },
    "LanceDataset": {
        # size and content
        "ds.to_pandas()": "index set_axis df toPandas fetchdf pandas pivot_table pivot explode "
        "reset_index corr melt unstack stack rolling resample interpolate plotly T to_df cumsum "
        "shift pct_change to_sql style cumprod squeeze to_markdown to_html to_period hash_rows lag "
        "lead to_clipboard to_latex corrwith mad sem skew kurt prod first_valid_index combine "
        "cumcount upsample get_group", "lk.scan_polars(ds)": "lazy to_lazy lazyframe to_lazyframe",
        "ds.to_batches()": "iterrows itertuples items iterate to_iter batches iter_batches "
        "to_reader to_pyarrow_dataset to_arrow_batch_reader to_record_batches iter_slices "
        "fetch_record_batch toLocalIterator foreach to_torch set_format with_format "
        "to_iterable_dataset batch to_tf to_tensorflow data_loader foreachPartition",
        "lk.sql('SELECT * FROM ds ORDER BY $number')": "sort_values sort orderBy order_by sort_by "
        "nlargest nsmallest rank top_k arrange idxmax idxmin bottom_k slice_max slice_min "
        "sortWithinPartitions argsort arg_sort order", "ds.head(1)": "first fetchone take_first",
        "lk.sql('SELECT $text, $mean FROM ds GROUP BY $text')": "count_by groupby agg group_by "
        "groupBy aggregate rollup cube summarise summarize crosstab partition_by group_by_dynamic",
        "ds.to_table(filter='$filter')": "query filter where search_rows mask find get_rows eval "
        "select_rows isin between_time filter_rows lookup filter_by find_one find_all",
        "ds.schema": "info schema_arrow printSchema print_schema arrow_schema describe_schema "
        "explain_schema get_schema axes flags features collect_schema table_schema",
        "lk.sql('SELECT * FROM ds JOIN df USING ($key)')": "join join_asof crossJoin intersect "
        "left_join inner_join right_join full_join semi_join intersectAll", "function(ds)": "pipe",
        "ds.to_table()": "collect to_arrow arrow read_all read fetch_arrow_table to_pyarrow_table "
        "toArrow fetchall_arrow read_table execute to_arrow_table", "ds.scanner()": "scan",
        "ds.export('x.parquet')": "to_parquet write_parquet copy_to to_pickle sink_parquet to_hdf "
        "to_orc push_to_hub to_ipc write_ipc sink_ipc", "len(ds) == 0": "empty is_empty isEmpty",
        "ds.export('x.csv')": "to_csv to_json write_csv to_excel to_feather sink_csv write_ndjson "
        "sink_ndjson to_stata write_json write_excel", "ds.count_rows()": "size count tally",
        "ds.to_table().to_pylist()": "to_dict to_dicts to_pylist to_records tolist to_list "
        "fetchall rows iter_rows toJSON fetchnumpy", "ds[-5:]": "tail last", _MEAN: "mean avg",
        "ds.take([3]), and to change rows ds.update({'$number': '$zero'}, where='$filter')": "loc "
        "iloc iat", "lk.sql('SELECT * FROM ds')": "execute_sql read_sql run sql_query alias",
        "ds.to_table(columns=['$key'])": "select project select_columns get_column columns_select "
        "relocate", "ds.schema.names": "column_names names field_names fields get_columns",
        "ds.uri": "path location name table_uri _path table_path remote remotes origin url "
        "upstream", "lk.sql('SELECT $name($number) FROM ds')": "sum min max median stddev",
        "ds['$number'].statistics().nulls": "isna isnull null_count notna notnull is_null isNull",
        "ds.sample(5)": "random shuffle sample_rows randomSplit train_test_split slice_sample",
        "ds['$text'].statistics().distinct": "nunique n_unique approx_n_unique n_distinct",
        "ds.to_polars()": "pl polars write_delta write_iceberg write_database write_avro",
        "ds.to_spark()": "toDF spark to_spark_df spark_df to_dataframe rdd",
        "ds['$text'].statistics().top": "value_counts mode freq freqItems",
        "len(ds)": "height num_rows nrows row_count length rowcount nrow",
        "ds.head()": "show display glimpse preview peek print to_string",
        _DISTINCT: "unique distinct dropDuplicates drop_duplicates_sql",
        "ds.to_pandas().to_numpy()": "values to_numpy numpy as_matrix",
        "ds.to_pandas().describe()": "describe summary profile",
        "ds['$number']": "column get_col col series to_series",
        "ds.plot.columns(1)": "hist boxplot scatter bar line",
        "ds.head(3)": "limit fetch fetchmany top slice_head",
        "len(ds.columns)": "width num_columns ncols ncol",
        "ds.take([3])": "at_row row get_row xs get item",
        "ds.to_pandas().set_index('$key')": "set_index",
        # rows
        "ds.insert(df)": "append add extend insert_into insert_rows add_rows append_rows "
        "insertInto saveAsTable write_dataset put ingest insert_many append_data add_files "
        "extend_rows insert_one create_write_transaction",
        _UPSERT: "upsert merge_into mergeInto insert_or_update merge_rows update_or_insert "
        "upsert_rows combine_first dynamic_partition_overwrite update_from",
        "lk.sql('SELECT * FROM ds UNION ALL SELECT * FROM df')": "concat union unionAll vstack "
        "unionByName union_all bind_rows", "ds.truncate_table()": "clear delete_all empty_table",
        "ds.update({'$number': '$zero'})": "set update_rows set_value updateAll replace_values "
        "update_where update_table", "ds.duplicates()": "duplicated is_duplicated find_duplicates",
        "ds.update({'$number': '$zero'}, where='$number IS NULL')": "fillna fill_null fill_nan "
        "ffill bfill", "ds[3:] to read some rows, or ds.truncate_table() to delete all": "truncate",
        "ds.to_table(filter='$number IS NOT NULL')": "dropna drop_nulls na drop_nans drop_na",
        "ds.delete('$filter')": "delete_rows remove drop_rows delete_where remove_rows",
        "lk.write_dataset(df, uri, mode='overwrite')": "overwrite replace replace_all",
        "ds.duplicates(['$key'])": "drop_duplicates deduplicate dedupe",
        "lk.write_dataset(df, uri, mode='append')": "writer writeTo",
        "ds.insert(df), or ds.export('x.parquet') to files": "write",
        # columns
        RENAME: "rename withColumnRenamed rename_columns rename_column withColumnsRenamed "
        "set_column_names update_schema evolve_schema add_prefix add_suffix rename_with",
        "ds.add_columns({'new': '1'})": "assign with_columns withColumn add_column insert_column "
        "with_column withColumns mutate hstack",
        "ds.drop_columns(['$number'])": "pop drop_column delete_column delete_columns "
        "remove_column dropColumn remove_columns",
        "ds.add_columns(function)": "apply map transform map_batches applymap mapInPandas map_rows "
        "map_partitions map_columns",
        "ds.alter_columns({'path': '$number', 'data_type': $type})": "astype cast change_type "
        "convert_dtypes cast_column",
        "ds.add_columns({'new': '1'}), or ds.alter_columns({'path': '$number', 'nullable': True})":
        "alter",
        "ds.alter_columns({'path': '$number', 'nullable': True})": "alter_column change_column",
        # versions
        "ds.versions()": "history log list_versions snapshots get_versions show_history commits "
        "version_history describe_history get_history changelog transactions_log metadata_log "
        "transaction_version inspect reflog whatchanged shortlog list_table_versions",
        "ds.checkout_version(1)": "load_as_version load_version as_of time_travel at_version "
        "versionAsOf version_as_of snapshot_at use_version asof snapshot snapshot_by_id "
        "snapshot_as_of_timestamp", "ds.undo()": "redo uncommit undo_last amend discard unstage",
        "ds.restore(1)": "restoreToVersion rollback rollback_to_snapshot reset restore_version "
        "revert_to reset_to rollback_to restore_to set_current_snapshot restoreToTimestamp "
        "restore_to_version", "ds.versions()[-1]": "last_commit describe_commit latest_commit",
        _CLEANUP: "vacuum expire_snapshots cleanup gc remove_orphan_files clean prune purge "
        "clean_up delete_old_versions remove_old_versions expire_versions cleanup_metadata "
        "create_checkpoint maintenance", "ds.checkout_version(1), or ds.branches['x']": "checkout",
        "ds.diff()": "is_dirty status compare compare_versions diff_versions what_changed except_ "
        "exceptAll subtract except_all uncommitted difference diff_stat",
        "ds.version": "version_number current_version get_current_version snapshot_id "
        "current_snapshot head_version HEAD hash sha commit_id rev_parse",
        "ds.changes(1)": "changes_since cdf load_cdf change_feed table_changes incremental "
        "get_changes read_change_feed readStream show_commit", "ds.revert(ds.version)": "backout",
        "ds.deep_clone('copy.lance')": "copy push backup export_to save clone_to duplicate "
        "to_lance rename_table save_to_disk move",
        "ds.checkout_latest()": "refresh reload update_incremental pull fetch_latest sync "
        "update_to_latest checkout_newest",
        "ds.branches['x']": "switch checkout_branch use_branch switch_branch set_branch get_branch "
        "open_branch", "ds.branches.compare('x').conflicts": "conflicts resolve merge_conflicts",
        "ds.insert(df, commit_message='message')": "commit_message message set_commit_message "
        "commit_all", "ds.branches.cherry_pick('x', 2)": "cherry_pick cherrypick",
        "ds.shallow_clone('copy.lance')": "clone fork link symlink",
        # branches and tags
        "ds.create_branch('x')": "stash new_branch branch_create add_branch make_branch worktree "
        "branch_from", "ds.branches.delete('x')": "delete_branch drop_branch remove_branch",
        "ds.branches.list()": "list_branches get_branches show_branches branch_list show_branch",
        "ds.tags.create('x')": "create_tag tag add_tag new_tag set_tag manage_snapshots",
        "ds.branches.merge('x')": "merge_branch fast_forward merge_from",
        "ds.tags.list()": "list_tags get_tags show_tags refs tag_list",
        "ds.tags.delete('x')": "delete_tag drop_tag remove_tag",
        "ds.branches.rebase('x')": "rebase",
        # files, indices, settings
        "ds.create_scalar_index('$key', 'BTREE')": "add_index create_btree_index create_indexes "
        "make_index z_order zorder cluster_by clusterBy ensure_index sort_index update_spec",
        "ds.to_table(nearest={'column': 'vector', 'q': query, 'k': 10})": "search vector_search "
        "nearest knn similarity_search nearest_neighbors ann rerank hybrid_search",
        _COMPACT: "compact compact_files repartition coalesce rewrite_data_files compaction "
        "optimize_table rewrite vacuum_analyze optimize_files squash", "ds.dtypes": "select_dtypes",
        "ds.describe_indices()": "indexes list_indexes get_indices show_indexes list_index "
        "index_stats spec sort_order wait_for_index partition_columns", "ds[::2]": "gather_every",
        "ds.update_config({'key': 'value'})": "set_properties set_tblproperties set_config "
        "set_table_properties update_properties", "lk.sql('SELECT stddev($number) FROM ds')": "std",
        "ds.stats.dataset_stats()": "detail details describe_table statistics table_stats "
        "memory_usage estimated_size data_size", "ds.to_table().to_pydict()": "to_pydict as_dict",
        "ds.optimize.optimize_indices()": "optimize_indices reindex update_index optimize_index "
        "update_indices refresh_index", "ds.update({'$number': '$zero'}, where='$filter')": "clip",
        "ds.create_temp_view('t')": "createOrReplaceTempView createTempView create_view "
        "registerTempTable to_view register", "ds.columns": "keys colRegex col_names list_columns",
        "ds.create_scalar_index('$text', 'INVERTED')": "create_fts_index create_full_text_index "
        "create_text_index", "lk.sql('SELECT median($number) FROM ds')": "quantile approxQuantile",
        "ds.constraints.add('name', '$filter')": "add_constraint create_constraint set_constraint "
        "check add_check", "ds.create_branch('new', ('name', None))": "rename_branch branch_rename",
        "ds.all_files()": "files file_uris list_files input_files inputFiles data_files "
        "get_add_actions generate", "ds.tags['name']": "snapshot_by_name load_tag get_tag open_tag",
        "ds.update_metadata({'key': 'value'})": "withMetadata set_description set_comment "
        "set_metadata", "ds.to_table(columns={'y': '$number'})": "selectExpr transmute select_expr",
        "ds.insert(df)  # each call commits by itself": "commit_changes begin transaction close "
        "flush", "lk.sql('SELECT * FROM ds WHERE $key NOT IN (SELECT $key FROM df)')": "anti_join",
        "ds.to_table(with_row_id=True)": "with_row_index with_row_count rowid row_ids "
        "with_row_number", "ds.get_fragments()": "fragments partitions list_fragments shard shards",
        "ds.create_index('vector', 'IVF_PQ')": "create_vector_index create_ann_index "
        "create_ivf_index", "ds.validate()": "verify fsck repair check_integrity integrity_check",
        "ds.to_table(full_text_query='words')": "full_text_search fts text_search match "
        "search_text", "ds.lance_schema.unenforced_primary_key()": "primary_key primary_keys key",
        "ds.config()": "properties table_properties get_config tblproperties options settings",
        "lk.write_dataset(ds.to_table(), 'new.lance', primary_key='$key')": "set_primary_key",
        "ds.checkout_version(ds.version - 1)": "parent previous previous_version",
        "lk.cache_info()": "cache persist unpersist checkpoint storageLevel", "ds[::-1]": "reverse",
        "ds.data_storage_version": "protocol format_version table_version", "ds[3:]": "skip offset",
        "ds.update({'$number': lk.col('$number').$name()})": "round abs", "len(ds.shape)": "ndim",
        "ds.explain.delete('$filter')": "dry_run preview_delete plan",
        "ds.at(asof='2026-12-01')": "version_at at_time at_timestamp",
        "lk.sql('SELECT var_samp($number) FROM ds')": "var variance",
        "ds.metadata": "get_metadata attrs embedding_functions", "ds.to_table().nbytes": "nbytes",
        "ds.versions()[-1].provenance": "author committer user", "help(ds)": "help docs doc man",
        "ds.constraints": "list_constraints get_constraints", "ds.count_rows('$filter')": "any all",
        "ds.explore()": "explorer browse view gui edit", "lk.spark_session()": "sparkSession",
        "lk.diff(ds.checkout_version(1), ds)": "equals", "ds.branches['main']": "main master",
        "ds.branches.compare('x').base": "merge_base", "lk.stream_sink(uri, 'name')": "writeStream",
        "ds.plot.graph()": "log_graph",
    },
    "DatasetColumn": {
        _READ: "to_pandas to_list tolist to_numpy to_arrow to_pylist collect head values array "
        "to_table data take sample tail loc iloc to_frame items cumsum first last T to_batches "
        "shift diff pct_change to_series squeeze", "ds.schema.field('$column').metadata": "comment",
        "lk.sql('SELECT * FROM ds ORDER BY $column')": "sort_values sort order_by nlargest "
        "nsmallest argmax argmin idxmax idxmin sort_index argsort rank",
        "ds.to_table(filter=lk.col('$column').$name('a'))": "contains like ilike startswith "
        "starts_with endswith ends_with", "ds.drop_columns(['$column'])": "drop delete remove pop",
        "ds['$column'].statistics().nulls": "isna isnull is_null null_count notna notnull isNull "
        "has_nulls hasnans", "ds.alter_columns({'path': '$column', 'name': 'new_name'})": "rename",
        "ds['$column'].statistics().distinct": "nunique n_unique cardinality approx_n_unique "
        "is_unique n_distinct", "ds.stats.data_stats()": "nbytes memory_usage num_bytes size_bytes",
        "lk.sql('SELECT $column, count(*) FROM ds GROUP BY $column')": "groupby group_by agg",
        "ds['$column'].statistics().top": "value_counts hist mode top freq histogram counts",
        "ds.to_table(filter=\"$condition\")": "gt ge lt le eq ne query filter where any all",
        "ds.to_table(columns={'y': lk.col('$column').$name()})": "year month day round abs",
        "lk.sql('SELECT DISTINCT $column FROM ds')": "unique distinct drop_duplicates",
        "ds.to_table(columns={'y': lk.col('$column').replace('a', 'b')})": "replace",
        "ds.alter_columns({'path': '$column', 'data_type': $type})": "astype cast",
        "ds.update({'$column': '0'}, where='$column IS NULL')": "fillna fill_null",
        "ds['$column'].statistics()": "describe summary plot stats info profile",
        "ds.to_table(columns={'y': 'upper($column)'})": "str upper lower strip",
        "ds.to_table(filter=lk.col('$column').is_in([...]))": "isin is_in",
        "ds.create_scalar_index('$column', 'BTREE')": "create_index index",
        "ds.update({'$column': '0'})": "set update set_value assign clip",
        "ds.to_table(filter=lk.col('$column').between(1, 2))": "between",
        "ds.add_columns(function)": "map apply transform map_elements",
        "lk.sql('SELECT median($column) FROM ds')": "median quantile",
        "lk.sql('SELECT stddev($column) FROM ds')": "std var stddev",
        "ds.to_table(columns={'y': lk.col('$column').year()})": "dt",
        "lk.sql('SELECT avg($column) FROM ds')": "mean average avg",
        "ds.to_table(columns={'new_name': '$column'})": "alias",
        "ds.to_table(columns={'y': 'length($column)'})": "len",
        "lk.sql('SELECT sum($column) FROM ds')": "sum total", "ds.schema.field('$column')": "field",
        "ds.delete('$column IS NULL')": "dropna drop_nulls",
        "ds['$column'].type": "dtype data_type arrow_type",
        "ds.to_pandas()": "corr cov autocorr rolling cat", "ds['$column'].path": "name column_name",
        "ds['$column'].statistics().min": "min minimum", "lk.col('$column') + 1": "add sub mul div",
        "ds['$column'].statistics().max": "max maximum",
        "len(ds)": "size count shape length num_rows",
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
    ("delete", "ds.explain.delete('$filter')", "dry_run preview"),
    ("update", "ds.explain.update({'$number': '$zero'})", "dry_run preview"),
    ("compact_files", "ds.explain.compact_files()", "dry_run preview"),
    ("cleanup_old_versions", "ds.explain.cleanup_old_versions()", "dry_run preview"),
    ("drop_columns", "ds.drop_columns(['$number'])", "(more)"),
    ("uri", "uri=$value", "path location table_uri dest destination"),
    ("data_obj", "data_obj=$value", "data df rows table"), ("mode", "mode='append'", "append"),
    ("conflicts", "conflicts='theirs'", "strategy favor prefer strategy_option"),
    ("restore", "ds.at(asof=$value).restore()", "asof timestamp when date"),
    ("filter", "filter=$value", "where predicate query filters row_filter condition mask expr"),
    ("columns", "columns=$value", "select usecols projection fields column selected_fields"),
    ("column_types", "column_types={'zip': pa.string()}", "dtype dtypes types schema_overrides "
     "converters"), ("offset", "offset=$value", "skip skiprows start"),
    ("sample", "ds.sample(5)", "frac fraction n size seed random_state (missing) (wrong)"),
    ("limit", "limit=$value, or ds.head(3)", "n nrows num_rows n_rows head rows count k"),
    ("head", "ds.head($value)", "n rows limit"), ("delete", "ds.delete($equal)", "(named)"),
    ("order_by", "order_by=$value", "order sort_by sort orderBy ordering by"),
    ("asof", "asof=$value", "timestamp as_of timestampAsOf time date at when"),
    ("version", "version=$value", "tag ref revision versionAsOf snapshot_id version_as_of "
     "snapshot"), ("mode", "mode='append' or mode='overwrite'", "if_exists"),
    ("mode", "mode='overwrite'", "overwrite replace exist_ok overwrite_schema overwriteSchema"),
    ("primary_key", "primary_key=$value", "key keys pk primary_keys id_column unique index_col"),
    ("where", "where=$value", "predicate filter condition query on"),
    ("older_than", "older_than=timedelta(days=7)", "days retention_hours age keep_days hours "
     "retention older_than_days before (wrong)"), ("to_table", _DISTINCT, "distinct unique"),
    ("retain_versions", "retain_versions=$value", "keep keep_last num_versions retain_last "
     "versions"), ("write_dataset", "df.reset_index(drop=True)", "index preserve_index"),
    ("max_rows_per_file", "max_rows_per_file=1_000_000", "row_group_size rows_per_file chunksize "
     "chunk_size"), ("dataset", "ds.to_table(columns=['id'])", "columns filter usecols limit"),
    ("storage_options", "storage_options={'region': 'eu-west-1'}", "s3 credentials filesystem "
     "options storage"), ("filter", "ds.checkout_version(1)", "version asof tag branch timestamp"),
    ("write_dataset", "ds.create_scalar_index('day', 'ZONEMAP')", "partition_by partitionBy "
     "partition_cols partition_on cluster_by"), ("to_pandas", _DISTINCT, "distinct unique"),
    ("update", "ds.update($given, where='$filter')", "(named)"),
    ("add_columns", "ds.add_columns($given)", "(named)"),
    ("insert", "ds.insert(df), or ds.add_columns({'new': '1'}) for a column", "(positional)"),
    ("compact_files", "ds.optimize.compact_files(target_rows_per_fragment=1_000_000)",
     "(positional)"), ("old", "old=$value", "from_version from_ base start before since"),
    ("checkout_version", "ds.at(asof=$value)", "timestamp asof time date as_of datetime"),
    ("update_config", "ds.update_config($given)", "(named)"),
    ("optimize_indices", "ds.optimize.optimize_indices(index_names=['name'])", "(positional)"),
    ("update_config", "ds.update_config({'key': 'value'})", "(missing) (more)"),
    ("condition", "condition=$value", "where predicate filter expr"),
    ("expr", "expr=$value", "where predicate filter condition"),
    ("sql", "lk.sql('SELECT * FROM t WHERE $key > $$x', t=ds, x=3)", "(more) (wrong)"),
    ("bisect", "ds.bisect('$filter')", "(missing)"), ("export", "ds.export('x.csv')", "(missing)"),
    ("changes", "ds.changes(1)", "(missing)"), ("blame", "ds.blame('$filter')", "(missing)"),
    ("get_version", "ds.checkout_version(1)", "(more)"), ("pack", "ds.pack('x.zip')", "(missing)"),
    ("config", "ds.config()['x']", "(more)"), ("delete", "ds.delete('$filter')", "(missing)"),
    ("to_pandas", "ds.to_pandas().set_index($value)", "index index_col set_index"),
    ("to_pandas", "ds.to_batches(batch_size=$value)", "chunksize chunk_size iterator"),
    ("to_pandas", "ds.to_pandas().convert_dtypes($name=$value)", "dtype_backend"),
    ("schema", "schema=pa.schema({'$number': pa.float32()})", "dtype dtypes types column_types"),
    ("dataset", "lk.dataset(uri), which reads and writes", "mode read_only readonly"),
    ("into", "into=$value", "target onto to destination"),
    ("delete", "ds.delete($value)", "where filter condition query expr delete_filter"),
    ("update", "ds.update($value, where='$filter')", "set values values_sql"),
    ("update", "ds.update({'$number': '$zero'}, where='$filter')", "(missing) (wrong) (more)"),
    ("merge", _UPSERT, "on how left_index right_index"),
    ("merge", f"{_UPSERT}, or ds.branches.merge('x') for a branch", "(missing)"),
    ("commit", "ds.insert(df, commit_message='message')", "(missing)"),
    ("create_branch", "ds.create_branch('x', $value)", "version at from_version parent ref "
     "source"), ("add_columns", "ds.add_columns({'new': '1'})", "(missing) (wrong) (more)"),
    ("alter_columns", RENAME, "(missing) (wrong) (more)"),
    ("insert", "ds.insert(df)", "(missing)"), ("restore", "ds.restore($value)", "tag ref"),
    ("create_scalar_index", "ds.create_scalar_index('$key', 'BTREE')", "(missing)"),
    ("create_index", "ds.create_scalar_index('$key', 'BTREE')", "(missing)"),
    ("undo", "ds.restore(1), or ds.revert($version) for one change", "(more) steps n version"),
    ("revert", "ds.revert($version)", "(missing) (wrong)"),
    ("schema_mode", "schema_mode='merge'", "merge_schema mergeSchema"),
    ("versions", "ds.versions()[::-1]", "reverse descending order ascending"),
    ("versions", "ds.versions().to_pandas().query(\"timestamp > '2026-01-01'\")", "since until "
     "after before author user start end"), ("create_branch", "ds.create_branch('x')", "(missing)"),
    ("versions", "ds.versions()[-5:]", "(more) limit n last"),
    ("Tags.create", "ds.tags.replace_metadata('x', {'$name': $value})", "message metadata "
     "comment"), ("diff", "lk.diff(ds.checkout_version(1), ds)", "(missing)"),
    ("read_parquet", "lk.read_parquet('rows.parquet').to_table(filter=pc.field('$number') > 3)",
     "filters filter"), ("read_csv", "lk.read_csv('rows.csv').head($value)", "nrows n_rows"),
    ("order_by", "order_by=[lk.ColumnOrdering('$number', ascending=False)]", "descending "
     "ascending desc reverse"),
    ("read_csv", "lk.read_csv('rows.csv').to_table(columns=$value)", "columns usecols"),
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
        "INVERTED": "FTS fts full_text text inverted", "BTREE": "btree B-TREE tree sorted",
        "IVF_PQ": "ivf_pq vector ann IVF", "BITMAP": "bitmap",
    },
}  # fmt: skip

#: by argument: the calls that a value stands for in other tools
CALLS: Mapping[str, Lines] = {
    "mode": {_UPSERT: "upsert merge update", "ds.delete('price > 3')": "delete"},
}

#: the lines of operators and of other uses by Python, by class
OPERATORS: Mapping[str, Lines] = {
    "LanceDataset": {
                "ds.to_table(filter='$filter')": "__gt__ __lt__ __ge__ __le__ __invert__ __and__ "
                "__or__", "ds.insert(df)  # each call commits by itself": "__enter__ __exit__",
                "ds.update({'$number': lk.col('$number') * 2})": "__neg__ __mul__ __truediv__",
                "ds.to_pandas(), or ds.to_pandas().to_numpy()": "__array__", "ds.diff()": "__sub__",
                "ds.insert(df)": "__add__ __radd__ __iadd__",
            },
    "DatasetColumn": {
        "lk.col('$column') $symbol $operand": "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ "
        "__truediv__ __rtruediv__ __mod__ __neg__ __abs__ __floordiv__ __pow__", _READ: "__array__",
        "ds.to_table(filter=\"$condition\")": "__gt__ __lt__ __ge__ __le__ __eq__ __ne__ "
        "__invert__ __and__ __or__", "ds.count_rows(\"$column = $shown\")": "__contains__",
        "ds.update({'$column': lk.col('$column') $symbol $operand})": "__iadd__ __isub__ __imul__",
        f"ds.take([0], columns=['$column']), or {_READ}": "__getitem__",
        f"len(ds), or {_READ}": "__len__",
    },
    **OPERATORS_OF_PARTS,
}  # fmt: skip

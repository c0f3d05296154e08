# ruff: noqa: E501  (each line is one guess)
"""What users of other tools type first, by object, with the line that does it here.

``python -m tests.support.first_guesses`` prints for each guess whether it works, is answered (its
error has the line), or fails.  A guess without a line is one that should work.  The names are those
of `tests.support.first_lines.world`; each line runs there.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.first_lines import Task, outcome, world
from tests.support.guesses_of_parts import GUESSES_OF_PARTS
from tests.support.later_guesses import LATER_GUESSES

__all__ = ["GUESSES", "Guess", "runs"]

#: typed, and the line that is right; no line where what is typed should work
Guess = tuple[str, str]

_SQL = "lk.sql('SELECT * FROM ds ORDER BY price')"
_GROUPS = "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"
_COMPACT = "ds.optimize.compact_files()"
_FILTER = "ds.to_table(filter='price > 3')"
_RENAME = "ds.alter_columns({'path': 'price', 'name': 'new_name'})"
_UPSERT = (
    "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"
)


GUESSES: dict[str, list[Guess]] = {
    "a second trial": [
        ("2 in ds.versions()", ""), ("3 not in ds.versions()", ""), ("ds.versions()[1] in ds.versions()", ""),
        ("ds.astype({'id': 'float64'})", "pa.float32()"), ("ds['id'].astype('float64')", "pa.int32()"),
        ("ds['name'].cast('text')", "pa.large_string()"), ("lk.col('name').substr(1, 3)", "left(name, 3)"),
        ("lk.col('day').minute()", "date_part('minute', day)"), ("ds.max()", "max(price)"), ("lk.sum('x')", "sum(price)"),
        ("ds.drop_columns('name', 'day')", "ds.drop_columns(['price'])"), ("ds.optimize_indices()", "ds.optimize.optimize_indices()"),
        ("lk.write_dataset(data=df, uri='n.lance')", "data_obj="), ("lk.write_dataset(df, path='n.lance')", "uri='n.lance'"),
        ("lk.dataset(path=uri)", "uri="), ("ds.branches.merge('old', strategy='theirs')", "conflicts='theirs'"),
        ("ds.equals(df)", "lk.diff(ds.checkout_version(1), ds)"),
        ("ds.to_pandas('price > 3')", "filter='price > 3'"), ("ds.merge_insert(lk.target('id') == lk.source('id'))", "ds.merge_insert('id')"),
        ("ds.union(df)", "UNION ALL"),
        ("ds.delete('id = 3', dry_run=True)", "ds.explain.delete('price > 3')"),
        ("ds.optimize.compact_files(dry_run=True)", "ds.explain.compact_files()"),
        ("ds.insert(df, mode='upsert')", "when_not_matched_insert_all().execute(df)"),
        ("lk.write_dataset('new.lance', df)", "lk.write_dataset(rows, 'new.lance')"),
        ("lk.dataset(uri + '@1')", "version=1)"), ("ds.help()", "help(ds)"),
        ("ds.plot.scatter('id', 'price')", "ds.to_pandas().plot()"),
        ("ds.plot.hist()", "ds.plot.columns(1)"), ("ds.add_columns('z')", "ds.add_columns({'z': '1'})"),
        ("ds.insert('rows.csv')", "lk.read_csv('rows.csv')"), ("ds.insert({'id': 5})", "a list of rows: [{"),
        ("lk.dataset(str(folder / 'rows.parquet'))", "lk.read_parquet("),
    ],
    # ---- the module
    "lk": [
        *((f"lk.{name}(uri)", "lk.dataset(uri)") for name in ("read", "open", "load", "read_table", "load_table", "open_table", "open_dataset", "Dataset", "Table", "DeltaTable", "read_lance", "read_dataset", "scan", "scan_lance", "get_dataset", "LanceTable")),
        ("lk.connect(str(folder))", "lk.dataset(uri)"),
        *((f"lk.{name}(df)", "lk.write_dataset(df, 'new.lance')") for name in ("from_pandas", "from_arrow", "from_polars", "DataFrame", "from_dict")),
        *((f"lk.{name}(df, 'new.lance')", "lk.write_dataset(df, 'new.lance')") for name in ("write", "save", "write_table", "write_lance", "to_lance")),
        ("lk.create_table('new', df)", "lk.write_dataset(df, 'new.lance')"),
        ("lk.write_deltalake('new.lance', df)", "lk.write_dataset(df, 'new.lance')"),
        ("lk.read_parquet(str(folder / 'in.parquet'))", ""),
        ("lk.read_csv(str(folder / 'in.csv'))", ""),
        ("lk.scan_polars(ds)", ""),
        ("lk.col('price')", ""),
        ("lk.lit('text')", ""),
        *((f"lk.{name}('SELECT * FROM ds')", "lk.sql('SELECT * FROM ds')") for name in ("execute", "read_sql")),
        ("lk.version", "lk.__version__"),
        ("lk.set_option('engine', 'local')", "lk.options.engine = 'local'"),
        ("lk.config", "lk.options"),
        ("lk.spark_context()", "lk.spark_session()"),
        ("lk.SparkSession", "lk.spark_session()"),
    ],
    # ---- the handle, pandas
    "ds, pandas": [
        ("ds.shape", ""), ("ds.columns", ""), ("ds.dtypes", ""),
        ("ds.size", "ds.count_rows()"), ("ds.index", "ds.to_pandas()"),
        ("ds.values", "ds.to_pandas().to_numpy()"), ("ds.to_numpy()", "ds.to_pandas().to_numpy()"),
        ("ds.loc[3]", "ds.take([3])"), ("ds.iloc[3]", "ds.take([3])"),
        ("ds.info()", "ds.schema"), ("ds.describe()", "ds.to_pandas().describe()"), ("ds.tail()", "ds[-5:]"),
        ("ds.query('price > 3')", _FILTER),
        ("ds.nunique()", "ds['name'].statistics().distinct"), ("ds.value_counts()", "ds['name'].statistics().top"),
        ("ds.isna()", "ds['price'].statistics().nulls"), ("ds.isnull()", "ds['price'].statistics().nulls"),
        ("ds.fillna(0)", "ds.update({'price': '0'}, where='price IS NULL')"),
        ("ds.dropna()", "ds.to_table(filter='price IS NOT NULL')"),
        ("ds.drop_duplicates('id')", "ds.duplicates(['id'])"), ("ds.duplicated()", "ds.duplicates()"),
        ("ds.astype({'price': 'float32'})", "ds.alter_columns({'path': 'price', 'data_type': pa.float32()})"),
        ("ds.assign(tax=1)", "ds.add_columns({'new': '1'})"),
        ("ds.rename(columns={'price': 'cost'})", _RENAME),
        ("ds.set_index('id')", "ds.to_pandas().set_index('id')"), ("ds.reset_index()", "ds.to_pandas()"),
        ("ds.sort_values('price')", _SQL), ("ds.nlargest(3, 'price')", _SQL), ("ds.groupby('name')", _GROUPS), ("ds.agg('mean')", _GROUPS),
        ("ds.mean()", "lk.sql('SELECT avg(price) FROM ds')"),
        *((f"ds.{name}()", f"lk.sql('SELECT {name}(price) FROM ds')") for name in ("sum", "min", "max", "median")),
        ("ds.count()", "ds.count_rows()"), ("ds.copy()", "ds.deep_clone('copy.lance')"),
        ("ds.apply(len)", "ds.add_columns(function)"), ("ds.map(len)", "ds.add_columns(function)"),
        ("ds.iterrows()", "ds.to_batches()"), ("ds.itertuples()", "ds.to_batches()"),
        ("ds.items()", "ds.to_batches()"), ("ds.pivot_table()", "ds.to_pandas()"),
        *((f"ds.{name}('x.csv')", "ds.export('x.csv')") for name in ("to_csv", "to_json")),
        *((f"ds.{name}()", "ds.to_table().to_pylist()") for name in ("to_dict", "to_dicts", "to_pylist", "to_records", "tolist")),
        ("ds.drop(columns=['price'])", "ds.drop_columns(['price'])"), ("ds.drop('price')", "ds.drop_columns(['price'])"),
        ("ds.pop('price')", "ds.drop_columns(['price'])"), ("ds.price", "ds['price']"),
        ("ds.sample(frac=0.1)", "ds.sample(5)"), ("ds.head(n=3)", "ds.head(3)"), ("ds.empty", "len(ds) == 0"), ("ds.equals(ds)", "lk.diff(ds.checkout_version(1), ds)"),
    ],
    # ---- the handle, Polars, DuckDB and Spark
    "ds, frames": [
        ("ds.filter('price > 3')", _FILTER), ("ds.where('price > 3')", _FILTER),
        ("ds.select(['id'])", "ds.to_table(columns=['id'])"), ("ds.project(['id'])", "ds.to_table(columns=['id'])"),
        ("ds.with_columns(tax=1)", "ds.add_columns({'new': '1'})"), ("ds.withColumn('tax', 1)", "ds.add_columns({'new': '1'})"),
        ("ds.withColumnRenamed('price', 'cost')", _RENAME),
        ("ds.sort('price')", _SQL), ("ds.orderBy('price')", _SQL), ("ds.order_by('price')", _SQL),
        ("ds.group_by('name')", _GROUPS), ("ds.groupBy('name')", _GROUPS),
        ("ds.limit(3)", "ds.head(3)"), ("ds.show()", "ds.head()"), ("ds.display()", "ds.head()"), ("ds.glimpse()", "ds.head()"), ("ds.first()", "ds.head(1)"),
        ("ds.collect()", "ds.to_table()"), ("ds.to_arrow()", "ds.to_table()"), ("ds.arrow()", "ds.to_table()"), ("ds.read_all()", "ds.to_table()"),
        ("ds.df()", "ds.to_pandas()"), ("ds.toPandas()", "ds.to_pandas()"), ("ds.fetchdf()", "ds.to_pandas()"), ("ds.fetchall()", "ds.to_table().to_pylist()"),
        ("ds.pl()", "ds.to_polars()"), ("ds.to_polars()", ""), ("ds.to_duckdb()", ""),
        ("ds.lazy()", "lk.scan_polars(ds)"), ("ds.scan()", "ds.scanner()"),
        ("ds.height", "len(ds)"), ("ds.width", "len(ds.columns)"), ("ds.num_rows", "len(ds)"), ("ds.nrows", "len(ds)"), ("ds.num_columns", "len(ds.columns)"),
        ("ds.column_names", "ds.schema.names"), ("ds.names", "ds.schema.names"), ("ds.schema_arrow", "ds.schema"),
        ("ds.unique()", "lk.sql('SELECT DISTINCT name FROM ds')"), ("ds.distinct()", "lk.sql('SELECT DISTINCT name FROM ds')"),
        ("ds.write_parquet('x.parquet')", "ds.export('x.parquet')"), ("ds.write_csv('x.csv')", "ds.export('x.csv')"), ("ds.write", "ds.insert(df)"),
        ("ds.createOrReplaceTempView('t')", "ds.create_temp_view('t')"), ("ds.printSchema()", "ds.schema"), ("ds.toDF()", "ds.to_spark()"), ("ds.spark()", "ds.to_spark()"),
        ("ds.repartition(4)", _COMPACT), ("ds.coalesce(1)", _COMPACT), ("ds.cache()", "lk.cache_info()"), ("ds.explode('name')", "ds.to_pandas()"),
    ],
    # ---- the handle, Delta, Iceberg and LanceDB
    "ds, tables": [
        ("ds.history()", "ds.versions()"), ("ds.log()", "ds.versions()"), ("ds.list_versions()", "ds.versions()"), ("ds.snapshots()", "ds.versions()"), ("ds.get_versions()", "ds.versions()"),
        ("ds.vacuum()", "ds.cleanup_old_versions()"), ("ds.expire_snapshots()", "ds.cleanup_old_versions()"), ("ds.cleanup()", "ds.cleanup_old_versions()"), ("ds.gc()", "ds.cleanup_old_versions()"),
        ("ds.restoreToVersion(1)", "ds.restore(1)"), ("ds.rollback(1)", "ds.restore(1)"), ("ds.rollback_to_snapshot(1)", "ds.restore(1)"), ("ds.reset(1)", "ds.restore(1)"), ("ds.restore(version=1)", ""), ("ds.restore(1)", ""),
        ("ds.load_as_version(1)", "ds.checkout_version(1)"), ("ds.load_version(1)", "ds.checkout_version(1)"), ("ds.as_of(1)", "ds.checkout_version(1)"), ("ds.time_travel(1)", "ds.checkout_version(1)"), ("ds.checkout(1)", "ds.checkout_version(1)"), ("ds.at_version(1)", "ds.checkout_version(1)"),
        ("ds.detail()", "ds.stats.dataset_stats()"), ("ds.describe_table()", "ds.stats.dataset_stats()"),
        ("ds.files()", "ds.all_files()"), ("ds.file_uris()", "ds.all_files()"), ("ds.fragments", "ds.get_fragments()"),
        ("ds.compact()", _COMPACT), ("ds.compact_files()", _COMPACT), ("ds.optimize()", _COMPACT), ("ds.optimize.compact()", _COMPACT), ("ds.optimize.executeCompaction()", _COMPACT), ("ds.optimize.rewrite()", _COMPACT), ("ds.optimize.vacuum()", "ds.cleanup_old_versions()"), ("ds.optimize.z_order(['id'])", _COMPACT), ("ds.optimize.optimize()", "ds.optimize.optimize_indices()"),
        ("ds.append(df)", "ds.insert(df)"), ("ds.add(df)", "ds.insert(df)"), ("ds.extend(df)", "ds.insert(df)"), ("ds.write(df)", "ds.insert(df)"), ("ds.insert_into(df)", "ds.insert(df)"), ("ds.concat(df)", "lk.sql('SELECT * FROM ds UNION ALL SELECT * FROM df')"),
        ("ds.overwrite(df)", "lk.write_dataset(df, uri, mode='overwrite')"), ("ds.replace(df)", "lk.write_dataset(df, uri, mode='overwrite')"),
        ("ds.upsert(df)", _UPSERT), ("ds.merge_into(df)", _UPSERT), ("ds.merge(df, on='id')", _UPSERT), ("ds.insert_or_update(df)", _UPSERT),
        ("ds.properties", "ds.config()"), ("ds.location()", "ds.uri"), ("ds.path", "ds.uri"), ("ds.name", "ds.uri"), ("ds.table_uri", "ds.uri"),
        ("ds.current_snapshot()", "ds.version"), ("ds.snapshot()", "ds.checkout_version(1)"), ("ds.current_version", "ds.version"), ("ds.current_version", "ds.version"),
        ("ds.update_schema()", _RENAME), ("ds.rename_column('price', 'cost')", _RENAME), ("ds.add_column('tax', '1')", "ds.add_columns({'new': '1'})"), ("ds.drop_column('price')", "ds.drop_columns(['price'])"), ("ds.drop_columns('price')", ""),
        ("ds.search([1.0, 2.0])", "ds.to_table(nearest={'column': 'vector', 'q': query, 'k': 10})"), ("ds.nearest([1.0, 2.0])", "ds.to_table(nearest={'column': 'vector', 'q': query, 'k': 10})"), ("ds.vector_search([1.0])", "ds.to_table(nearest={'column': 'vector', 'q': query, 'k': 10})"),
        ("ds.create_fts_index('name')", "ds.create_scalar_index('name', 'INVERTED')"), ("ds.create_index('id')", "ds.create_scalar_index('id', 'BTREE')"), ("ds.add_constraint({'x': 'price >= 0'})", "ds.constraints.add('name', 'price > 3')"), ("ds.constraints.add('price >= 0')", "ds.constraints.add('name', 'price > 3')"),
        ("ds.refresh()", "ds.checkout_latest()"), ("ds.reload()", "ds.checkout_latest()"), ("ds.update_incremental()", "ds.checkout_latest()"), ("ds.pull()", "ds.checkout_latest()"), ("ds.latest()", ""),
        ("ds.diff()", ""), ("ds.changes_since(1)", "ds.changes(1)"), ("ds.cdf(1)", "ds.changes(1)"), ("ds.load_cdf(1)", "ds.changes(1)"),
        ("ds.deep_clone(str(folder / 'c.lance'))", ""), ("ds.shallow_clone(str(folder / 's.lance'))", ""), ("ds.clone(str(folder / 'd.lance'))", "ds.shallow_clone('copy.lance')"),
    ],
    # ---- the handle, git and lakeFS
    "ds, git": [
        ("ds.status()", "ds.diff()"), ("ds.commit('message')", "ds.insert(df, commit_message='message')"), ("ds.create_tag('x')", "ds.tags.create('x')"), ("ds.tag('x')", "ds.tags.create('x')"),
        ("ds.switch('old')", "ds.branches['x']"), ("ds.checkout('old')", "ds.branches['x']"), ("ds.checkout_version('old')", "ds.branches['old']"), ("ds.checkout_branch('old')", "ds.branches['x']"),
        ("ds.merge_branch('old')", "ds.branches.merge('x')"), ("ds.rebase('old')", "ds.branches.rebase('x')"), ("ds.cherry_pick(1)", "ds.branches.cherry_pick('x', 2)"), ("ds.stash()", "ds.create_branch('x')"), ("ds.new_branch('x')", "ds.create_branch('x')"), ("ds.delete_branch('old')", "ds.branches.delete('x')"), ("ds.list_branches()", "ds.branches.list()"), ("ds.list_tags()", "ds.tags.list()"),
        ("ds.show(1)", "ds.head()"), ("ds.push()", "ds.deep_clone('copy.lance')"), ("ds.fetch()", "ds.head(3)"), ("ds.redo()", "ds.undo()"),
    ],
    # ---- what Python does with an object
    "ds, Python": [
        ("ds[10:15]", ""), ("ds[['id', 'price']]", ""), ("ds['price']", ""), ("ds['id', 'price']", "ds[['id', 'price']]"), ("ds[3]", "ds.take([3])"), ("ds[-1]", "ds.take([len(ds) - 1])"), ("ds[[1, 2]]", ""),
        ("ds[ds['price'] > 3]", _FILTER.replace("'", '"')), ("ds[lambda d: d]", _FILTER),
        ("'price' in ds", ""), ("3 in ds", "ds.count_rows('id = 3')"),
        ("[row for row in ds]", "ds.to_batches()"), ("list(ds)", "ds.to_batches()"), ("dict(ds)", "ds.to_table().to_pydict()"),
        ("ds['tax'] = 1", "ds.add_columns({'tax': '1'})"), ("ds['price'] = 0", "ds.update({'price': '0'})"), ("ds.tax = 1", "ds.add_columns({'tax': '1'})"), ("del ds['price']", "ds.drop_columns(['price'])"),
        ("with ds: pass", "ds.insert(df)"), ("np.asarray(ds)", "ds.to_pandas().to_numpy()"), ("pd.DataFrame(ds)", "ds.to_pandas()"), ("pl.DataFrame(ds)", ""), ("pa.table(ds)", ""), ("ds + df", "ds.insert(df)"), ("ds > 3", _FILTER), ("bool(ds)", ""), ("ds.columns = ['a', 'b', 'c', 'd']", _RENAME),
    ],
    # ---- arguments
    "arguments": [
        ("lk.dataset(uri, branch='old')", ""), ("lk.dataset(uri, tag='first')", "version='first'"), ("lk.dataset(uri, timestamp='2020-01-01')", "asof='2020-01-01'"), ("lk.dataset(uri, as_of='2020-01-01')", "asof='2020-01-01'"), ("lk.dataset(uri, versionAsOf=1)", "version=1"), ("lk.dataset(uri, timestampAsOf='2020-01-01')", "asof='2020-01-01'"), ("lk.dataset(uri, version='2020-01-01')", "asof='2020-01-01'"), ("lk.dataset(uri, columns=['id'])", "ds.to_table(columns=['id'])"),
        ("lk.write_dataset(df, uri, mode='error')", "mode='create'"), ("lk.write_dataset(df, uri, mode='w')", "mode='overwrite'"), ("lk.write_dataset(df, uri, mode='replace')", "mode='overwrite'"), ("lk.write_dataset(df, uri, overwrite=True)", "mode='overwrite'"), ("lk.write_dataset(df, uri, append=True)", "mode='append'"), ("lk.write_dataset(df, uri, if_exists='append')", "mode='append'"), ("lk.write_dataset(df, uri, partition_by='day')", "ds.create_scalar_index('day', 'ZONEMAP')"), ("lk.write_dataset(df, uri, mode='append', message='x')", "commit_message='x'"), ("lk.write_dataset(df, uri, mode='append', schema_mode='merge')", ""), ("lk.write_dataset(df, uri, index=False)", "df.reset_index(drop=True)"), ("lk.write_dataset(df, uri, key='id')", "primary_key='id'"),
        *((f"ds.to_table({name}='price > 3')", "filter='price > 3'") for name in ("where", "predicate", "query", "filters", "row_filter")),
        ("ds.to_table(select=['id'])", "columns=['id']"), ("ds.to_table(usecols=['id'])", "columns=['id']"), ("ds.to_table(n=3)", "limit=3"), ("ds.to_table(nrows=3)", "limit=3"), ("ds.to_table(order='price')", "order_by='price'"), ("ds.to_table(sort_by='price')", "order_by='price'"), ("ds.to_table(version=1)", "ds.checkout_version(1)"),
        ("ds.delete(where='id = 1')", "ds.delete('id = 1')"), ("ds.delete(filter='id = 1')", "ds.delete('id = 1')"), ("ds.delete([1, 2])", "ds.delete('id IN (1, 2)')"), ("ds.delete(1)", "ds.delete('id = 1')"), ("ds.delete()", "ds.delete('price > 3')"),
        ("ds.update({'price': 0})", ""), ("ds.update({'name': None})", ""), ("ds.update({'day': pd.Timestamp('2026-01-01')})", ""), ("ds.update({'name': lk.lit('x')})", ""), ("ds.update({'name': 'closed'})", "\"'closed'\""), ("ds.update(set={'price': '0'})", "ds.update({'price': '0'}, where='price > 3')"), ("ds.update(values={'price': 0})", "ds.update({'price': 0}, where='price > 3')"), ("ds.update({'price': '0'}, predicate='id = 1')", "where='id = 1'"), ("ds.update({'price': '0'}, filter='id = 1')", "where='id = 1'"), ("ds.update('price', 0)", "ds.update({'price': '0'})"), ("ds.update(price=0)", "ds.update({'price': 0}, where='price > 3')"),
        ("ds.merge_insert('id').execute(df)", "when_matched_update_all()"), ("ds.merge_insert('id').when_not_matched_insert_all().execute(df, message='x')", "commit_message='x'"), ("ds.insert(df, message='x')", "commit_message='x'"),
        ("ds.tags.create('x', version=1)", "ds.tags.create('x', 1)"), ("ds.create_branch('x', version=1)", "ds.create_branch('x', 1)"), ("ds.cleanup_old_versions(days=7)", "older_than=timedelta(days=7)"), ("ds.cleanup_old_versions(retention_hours=168)", "older_than=timedelta(days=7)"), ("ds.cleanup_old_versions(7)", "older_than=timedelta(days=7)"), ("ds.cleanup_old_versions(keep=3)", "retain_versions=3"),
        ("ds.add_columns({'tax': 1})", ""), ("ds.add_columns('tax', '1')", "ds.add_columns({'new': '1'})"), ("ds.alter_columns(price='cost')", _RENAME), ("ds.alter_columns({'price': 'cost'})", "ds.alter_columns({'path': 'price', 'name': 'cost'})"), ("ds.create_scalar_index('id')", "ds.create_scalar_index('id', 'BTREE')"), ("ds.create_index('price', 'BTREE')", "create_scalar_index"),
    ],
    # ---- a column
    "column": [
        *((f"ds['name'].{name}()", "ds['name'].statistics().top") for name in ("value_counts", "hist", "mode")), *((f"ds['name'].{name}()", "ds['name'].statistics().distinct") for name in ("nunique", "n_unique")), ("ds['name'].unique()", "lk.sql('SELECT DISTINCT name FROM ds')"),
        *((f"ds['price'].{name}()", f"ds['price'].statistics().{name}") for name in ("min", "max")), *((f"ds['price'].{name}()", f"lk.sql('SELECT {sql}(price) FROM ds')") for name, sql in (("mean", "avg"), ("sum", "sum"), ("std", "stddev"))), ("ds['price'].describe()", "ds['price'].statistics()"), ("ds['price'].summary()", "ds['price'].statistics()"),
        *((f"ds['price'].{name}()", "ds['price'].statistics().nulls") for name in ("isna", "isnull", "is_null", "null_count")), ("ds['price'].fillna(0)", "ds.update({'price': '0'}, where='price IS NULL')"),
        *((f"ds['price'].{name}()", "ds.to_table(columns=['price'])['price']") for name in ("to_pandas", "to_list", "tolist", "to_numpy", "to_arrow", "to_pylist", "collect", "head")), ("ds['price'].values", "ds.to_table(columns=['price'])['price']"),
        ("ds['price'].astype('float32')", "ds.alter_columns({'path': 'price', 'data_type': pa.float32()})"), ("ds['price'].cast(pa.float32())", "ds.alter_columns({'path': 'price', 'data_type': pa.float32()})"), ("ds['price'].rename('cost')", _RENAME), ("ds['price'].drop()", "ds.drop_columns(['price'])"),
        ("ds['name'].map(len)", "ds.add_columns(function)"), ("ds['name'].apply(len)", "ds.add_columns(function)"), ("ds['name'].str.upper()", "upper(name)"), ("ds['price'].dtype", "ds['price'].type"), ("ds['price'].name", "ds['price'].path"), ("ds['price'].plot()", "ds['price'].statistics()"),
        ("len(ds['price'])", "len(ds)"), ("list(ds['price'])", "ds.to_table(columns=['price'])['price']"), ("ds['price'][0]", "ds.take([0], columns=['price'])"), ("ds['price'] > 3", 'filter="price > 3"'), ("ds['price'] == 3", 'filter="price = 3"'), ("ds['price'] + 1", "lk.col('price') + 1"), ("np.asarray(ds['price'])", "ds.to_table(columns=['price'])['price']"),
    ],
    # ---- versions
    "versions": [
        ("ds.versions().to_pandas()", ""), ("ds.versions()[-1]", ""), ("len(ds.versions())", ""), ("ds.versions().df()", "ds.versions().to_pandas()"), ("ds.versions().to_arrow()", "ds.versions().to_table()"), ("ds.versions().to_table()", ""), ("ds.versions().show()", "ds.versions()"), ("ds.versions().latest", "ds.versions()[-1]"), ("ds.versions().last()", "ds.versions()[-1]"), ("ds.versions().head()", "ds.versions()[-5:]"), ("ds.versions().tail()", "ds.versions()[-5:]"), ("ds.versions().iloc[0]", "ds.versions()[0]"), ("ds.versions().tolist()", "list(ds.versions())"),
        *((f"ds.versions()[-1].{name}", "ds.versions()[-1].version") for name in ("id", "number", "version_id", "snapshot_id")), *((f"ds.versions()[-1].{name}", "ds.versions()[-1].timestamp") for name in ("time", "date", "created", "created_at", "committed")), ("ds.versions()[-1].author", "ds.versions()[-1].provenance"), ("ds.versions()[-1].user", "ds.versions()[-1].provenance"), ("ds.versions()[-1].diff()", "ds.changes(2)"), ("ds.versions()[-1].checkout()", "ds.checkout_version(2)"), ("ds.versions()[-1].restore()", "ds.restore(2)"), ("ds.versions()[-1].commit_message", "ds.versions()[-1].message"), ("ds.versions()[-1].rows", "ds.versions()[-1].num_rows"), ("ds.versions()[-1].parent", "ds.versions()[-1].read_version"),
    ],
    # ---- tags and branches
    "tags, branches": [
        ("ds.tags['first']", ""), ("'first' in ds.tags", ""), ("list(ds.tags)", ""), ("len(ds.tags)", ""), ("ds.tags.to_pandas()", ""), ("ds.tags.get('first')", "ds.tags['name']"), ("ds.tags.add('x')", "ds.tags.create('x')"), ("ds.tags.set('first', 2)", "ds.tags.update('name', 1)"), ("ds.tags.move('first', 2)", "ds.tags.update('name', 1)"), ("ds.tags.remove('first')", "ds.tags.delete('name')"), ("ds.tags.names()", ""), ("ds.tags.keys()", ""), ("ds.tags.checkout('first')", "ds.tags['name']"), ("ds.tags.rename('first', 'one')", "ds.tags.create('new', 'name')"), ("del ds.tags['first']", "ds.tags.delete('first')"), ("ds.tags['x'] = 1", "ds.tags.create('x', 1)"), ("ds.tags()", "ds.tags.list()"), ("ds.tags.first", "ds.tags['first']"),
        ("ds.branches['old']", ""), ("ds.branches.create('x')", ""), ("'old' in ds.branches", ""), ("list(ds.branches)", ""), ("len(ds.branches)", ""), ("ds.branches.to_pandas()", ""), ("ds.branches.checkout('old')", "ds.branches['name']"), ("ds.branches.switch('old')", "ds.branches['name']"), ("ds.branches.get('old')", "ds.branches['name']"), ("ds.branches.open('old')", "ds.branches['name']"), ("ds.branches.add('x')", "ds.branches.create('x')"), ("ds.branches.new('x')", "ds.branches.create('x')"), ("ds.branches.remove('old')", "ds.branches.delete('name')"), ("ds.branches.rename('old', 'new')", "ds.create_branch('new', ('name', None))"), ("ds.branches.current", "ds.branch"), ("ds.branches.diff('old')", "ds.branches.compare('name')"), ("ds.branches.keys()", ""), ("del ds.branches['old']", "ds.branches.delete('old')"), ("ds.branches()", "ds.branches.list()"), ("ds.branches.old", "ds.branches['old']"),
    ],
    # ---- merges, SQL results
    "merge": [
        *((f"ds.merge_insert('id').{name}()", f"{right}()") for name, right in (("whenMatchedUpdateAll", "when_matched_update_all"), ("whenNotMatchedInsertAll", "when_not_matched_insert_all"), ("when_matched_update", "when_matched_update_all"), ("when_not_matched_insert", "when_not_matched_insert_all"), ("update_all", "when_matched_update_all"), ("insert_all", "when_not_matched_insert_all"), ("when_not_matched_by_source", "when_not_matched_by_source_delete"), ("whenNotMatchedBySourceDelete", "when_not_matched_by_source_delete"))),
        *((f"ds.merge_insert('id').when_matched_update_all().{name}(df)", "execute(df)") for name in ("run", "merge", "source", "using", "apply", "commit")), ("ds.merge_insert('id').when_matched_update_all().dry_run(df)", "preview(df)"), ("ds.merge_insert('id').when_matched_update_all().explain(df)", ""),
    ],
    "sql": [
        *((f"lk.sql('SELECT * FROM ds').{name}()", "") for name in ("df", "pl", "fetchall", "to_pandas", "to_table")), *((f"lk.sql('SELECT * FROM ds').{name}()", "to_pandas()") for name in ("toPandas", "fetchdf", "fetch_df", "pandas")), *((f"lk.sql('SELECT * FROM ds').{name}()", "to_table()") for name in ("arrow", "to_arrow", "collect", "execute", "fetch_arrow_table")), ("lk.sql('SELECT * FROM ds').fetchone()", "fetchall()[0]"), ("lk.sql('SELECT * FROM ds').show()", "lk.sql("), ("lk.sql('SELECT * FROM ds').count()", "len("), ("len(lk.sql('SELECT * FROM ds'))", ""), ("list(lk.sql('SELECT * FROM ds'))", "fetchall()"), ("lk.sql('SELECT * FROM ds').columns", ""), ("lk.sql('SELECT * FROM ds').to_polars()", ""), ("lk.sql('SELECT * FROM ds').write_parquet('x')", "to_table()"), ("lk.sql('SELECT * FROM ds')['id']", "to_table()['column']"),
        ("lk.sql(f\"SELECT * FROM '{uri}'\")", ""), ("lk.sql('SELECT count(*) FROM df')", ""), ("lk.sql('SHOW TABLES')", ""),
    ],
    **GUESSES_OF_PARTS,
    **LATER_GUESSES,
    # ---- what a trial found, and more by tool
    "trial": [
        ("lk.read_excel('x.xlsx')", "lk.write_dataset(pd.read_excel("), ("lk.read_delta('x')", "lk.write_dataset(pl.read_delta("),
        ("lk.read_iceberg('x')", "lk.write_dataset(pl.scan_iceberg("), ("lk.concat([ds, ds])", "lk.sql('SELECT * FROM ds UNION ALL SELECT * FROM df')"),
        ("lk.when(1)", "lk.sql('SELECT *, CASE WHEN price > 3 THEN 1 ELSE 0 END AS y FROM ds')"), ("lk.expr('price > 3')", "ds.to_table(filter='price > 3')"),
        ("lk.F", "lk.col('price')"), ("lk.functions", "lk.col('price')"), ("lk.coalesce('a', 'b')", "lk.col('price').fill_null(0)"),
        ("lk.sum('price')", "sum(price)"), ("lk.count('price')", "count(price)"),
        ("lk.max('price')", "max(price)"), ("lk.min('price')", "min(price)"),
        ("lk.avg('price')", "lk.sql('SELECT avg(price) FROM ds')"), ("lk.exists(uri)", "lk.dataset(uri)"), ("lk.list_tables()", "lk.sql('SHOW TABLES')"),
        ("lk.list_datasets()", "lk.sql('SHOW TABLES')"), ("lk.table_names()", "lk.sql('SHOW TABLES')"), ("lk.drop_table(uri)", "lk.LanceDataset.drop(uri)"),
        ("lk.delete(uri)", "lk.LanceDataset.drop(uri)"), ("lk.drop(uri)", "lk.LanceDataset.drop(uri)"), ("lk.diff(ds)", "lk.diff(ds.checkout_version(1), ds)"),
        ("lk.diff(uri)", "lk.diff(ds.checkout_version(1), ds)"), ("lk.dataset(uri, version='main')", "ds.branches['main']"), ("lk.dataset(uri, ref='first')", "version='first'"),
        ("lk.dataset(uri, snapshot_id=1)", "version=1"), ("lk.dataset(uri, asof=datetime.date(2099, 1, 1))", ""), ("ds.at(datetime.date(2099, 1, 1))", ""),
        ("lk.read_csv(str(folder / 'in.csv'), sep=';')", "lk.write_dataset(pd.read_csv('rows.csv', sep=';'), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), delimiter=';')", "lk.write_dataset(pd.read_csv('rows.csv', delimiter=';'), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), dtype={'id': 'int32'})", "column_types={'zip': pa.string()}"),
        ("lk.read_csv(str(folder / 'in.csv'), index_col=0)", "lk.write_dataset(pd.read_csv('rows.csv', index_col=0), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), parse_dates=['day'])", "lk.write_dataset(pd.read_csv('rows.csv', parse_dates=['day']), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), skiprows=0)", "lk.write_dataset(pd.read_csv('rows.csv', skiprows=0), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), names=['a'])", "lk.write_dataset(pd.read_csv('rows.csv', names=['a']), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), header=None)", "lk.write_dataset(pd.read_csv('rows.csv', header=None), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), encoding='latin-1')", "lk.write_dataset(pd.read_csv('rows.csv', encoding='latin-1'), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), separator=';')", "lk.write_dataset(pl.read_csv('rows.csv', separator=';'), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), has_header=False)", "lk.write_dataset(pl.read_csv('rows.csv', has_header=False), 'new.lance')"),
        ("lk.read_csv(str(folder / 'in.csv'), schema_overrides={'id': 'int32'})", "column_types={'zip': pa.string()}"),
        ("lk.read_csv(str(folder / 'in.csv'), usecols=['id'])", "lk.read_csv('rows.csv').to_table(columns=['id'])"),
        ("lk.read_csv(str(folder / 'in.csv'), columns=['id'])", "lk.read_csv('rows.csv').to_table(columns=['id'])"),
        ("lk.read_csv(str(folder / 'in.csv'), nrows=3)", "lk.read_csv('rows.csv').head(3)"), ("lk.read_csv(str(folder / 'in.csv'), n_rows=3)", "lk.read_csv('rows.csv').head(3)"),
        ("lk.read_csv(str(folder / '*.csv'))", ""), ("lk.read_parquet(str(folder / 'in.parquet'), columns=['id'])", "lk.read_parquet('rows.parquet').to_table(columns=['id'])"),
        ("ds.T", "ds.to_pandas()"), ("ds.ndim", "len(ds.shape)"), ("ds.nbytes", "ds.to_table().nbytes"), ("ds.to_df()", "ds.to_pandas()"),
        ("ds.to_pydict()", "ds.to_table().to_pydict()"), ("ds.keys()", "ds.columns"), ("ds.to_sql('t', None)", "ds.to_pandas()"), ("ds.primary_key", "ds.lance_schema"),
        ("ds.set_primary_key('id')", "primary_key='id'"), ("ds.to_torch()", "ds.to_batches()"), ("ds.constraints()", "ds.constraints.list()"),
        ("-ds", "ds.update({'price': lk.col('price') * 2})"), ("ds * 2", "ds.update({'price': lk.col('price') * 2})"), ("~ds", "ds.to_table(filter='price > 3')"),
        ("ds - ds", "ds.diff()"), ("ds & ds", "ds.to_table(filter='price > 3')"), ("ds + ds", "ds.insert(df)"), ("ds[[True, False] * 10]", ""),
        ("ds[ds.to_pandas()['price'] > 3]", ""), ("ds[np.array([True] * 20)]", ""), ("ds[np.array([1, 2])]", ""), ("ds[pd.Series([1, 2])]", ""),
        ("ds[pd.Index(['id', 'price'])]", ""), ("ds[df['id'] > 3]", "filter="), ("ds[np.int64(3)]", "ds.take([3])"), ("ds['a':'b']", "between('a', 'b')"),
        ("ds[lk.col('price') > 3]", ""), ("ds[pc.field('price') > 3]", ""), ("ds[{'id': 1}]", "filter="), ("ds[...]", "ds.to_table("),
        ("ds['price'] += 1", "ds.update({'price': lk.col('price') + 1})"), ("ds['price'] = df['price']", "ds.merge_insert('id').when_matched_update_all().execute(df)"),
        ("ds[0] = 1", "ds.update({'price': '1'}, where='price > 3')"), ("ds['note'] = 'it'", "ds.add_columns({'note': \"'it'\"})"), ("ds.undo(2)", "ds.restore(1)"),
        ("ds.undo(steps=2)", "ds.restore(1)"), ("ds.restore('first')", ""), ("ds.restore(datetime.datetime(2099, 1, 1))", ""), ("ds.restore(datetime.date(2099, 1, 1))", ""),
        ("ds.restore(tag='first')", "version='first'"), ("ds.restore(('old', 1))", "ds.branches"), ("ds.to_table(order_by='price')", ""),
        ("ds.to_table(order_by=[('price', 'desc')])", "lk.ColumnOrdering('price', ascending=False)"),
        ("ds.to_table(order_by={'price': 'desc'})", "lk.ColumnOrdering('price', ascending=False)"),
        ("ds.to_table(order_by='price', descending=True)", "lk.ColumnOrdering('price', ascending=False)"), ("ds.to_table(filter=[('price', '>', 1)])", "'price > 1'"),
        ("ds.to_table(filter={'price': 1})", "'price = 1'"), ("ds.to_table(filters=[('price', '>', 1)])", "filter='price > 1'"),
        ("ds.to_table(filter=pl.col('price') > 3)", "lk.scan_polars(ds).filter("), ("ds.to_table(filter=lambda row: row)", "lk.col('x') > 3"),
        ("ds.to_table(filter=df['price'] > 3)", "lk.col('x') > 3"), ("ds.delete(pl.col('price') > 3)", "lk.col('x') > 3"), ("ds.delete({'id': 1})", "ds.delete('id = 1')"),
        ("ds.count_rows([('price', '>', 1)])", "'price > 1'"), ("ds.to_table(filter='price > 3 && id < 5')", "AND"),
        ("ds.insert(df, schema_mode='overwrite')", "mode='overwrite'"), ("ds['day'].dt.year", "lk.col('day').year()"), ("ds['day'].year", "lk.col('day').year()"),
        ("ds['name'].mean()", "ds['name'].statistics()"), ("ds['name'].sum()", "ds['name'].statistics()"), ("ds['day'].mean()", "ds['day'].statistics()"),
        ("ds['name'].len()", "length(name)"), ("ds['price'].round(2)", "lk.col('price').round()"), ("ds['price'].abs()", "lk.col('price').abs()"),
        ("ds.update('price = 0')", "ds.update({'price': '0'})"), ("ds.update({'price': 0}, 'price > 3')", ""), ("ds.update('price = 0', 'id = 1')", "ds.update({'price': '0'})"),
        ("next(iter(ds))", "ds.to_batches()"), ("sorted(ds)", "ds.to_batches()"), ("sum(ds)", "ds.to_batches()"), ("isinstance(ds, collections.abc.Iterable)", ""),
        ("copy.copy(ds)", ""), ("pickle.loads(pickle.dumps(ds))", ""), ("lk.dataset(uri, version='1')", "version=1"), ("lk.dataset(uri, version='main:1')", "('main', 1)"),
        ("lk.dataset(uri, version='HEAD~1')", "ds.checkout_version(ds.version - 1)"), ("lk.dataset(uri, version=-1)", "ds.checkout_version(ds.version - 1)"),
        ("ds.stats()", "ds.stats.dataset_stats()"), ("ds.explain()", "ds.explain.to_table()"), ("ds.explain('price > 3')", "ds.explain.to_table()"),
        ("ds.plot()", "ds.plot.columns(1)"), ("ds[:, 'id']", "ds.to_table(columns=['id'])"), ("ds[0, 'id']", "ds.take([0], columns=['id'])"),
        ("ds[0:5, ['id']]", "ds.to_table(columns=['id'])[:5]"), ("ds.sql('SELECT * FROM dataset').df()", "lk.sql('SELECT * FROM ds')"),
        ("ds.sql('SELECT * FROM dataset').to_pandas()", "lk.sql('SELECT * FROM ds')"), ("ds.sql('SELECT * FROM dataset').build().to_table()", "lk.sql('SELECT * FROM ds')"),
        ("lk.read_parquet(str(folder / 'in.parquet'), filters=[('id', '>', 1)])", "lk.read_parquet('rows.parquet').to_table(filter="),
    ],
    "pandas, more": [
        ("lk.read_feather('x.feather')", "lk.write_dataset(pd.read_feather("), ("lk.read_pickle('x.pkl')", "lk.write_dataset(pd.read_pickle("),
        ("lk.read_orc('x.orc')", "lk.write_dataset(pd.read_orc("), ("ds.dtypes['price']", ""), ("ds.cumsum()", "ds.to_pandas()"), ("ds.diff(1)", ""),
        ("ds.style", "ds.to_pandas()"), ("ds.nunique(axis=0)", "ds['name'].statistics().distinct"), ("ds.query('price > 3', inplace=True)", "ds.to_table(filter='price > 3')"),
        ("ds.compare(ds)", "ds.diff()"), ("ds.pct_change()", "ds.to_pandas()"), ("ds.shift(1)", "ds.to_pandas()"), ("ds.filter(items=['id'])", "ds.to_table(filter='price > 3')"),
        ("ds.sum(axis=0)", "sum(price)"), ("ds.items", "ds.to_batches()"),
        ("lk.merge(df, df)", "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"), ("lk.Series([1])", "lk.write_dataset(df, 'new.lance')"),
        ("ds.select_dtypes('number')", "ds.dtypes"), ("ds.isin([1])", "ds.to_table(filter='price > 3')"), ("ds.round(2)", "ds.update({'price': lk.col('price').round()})"),
        ("ds.abs()", "ds.update({'price': lk.col('price').abs()})"), ("ds.memory_usage()", "ds.stats.dataset_stats()"),
        ("ds.idxmax()", "lk.sql('SELECT * FROM ds ORDER BY price')"), ("ds.any()", "ds.count_rows('price > 3')"), ("ds.all()", "ds.count_rows('price > 3')"),
        ("ds.clip(0, 1)", "ds.update({'price': '0'}, where='price > 3')"), ("ds.to_markdown()", "ds.to_pandas()"), ("ds.to_html()", "ds.to_pandas()"),
        ("ds.to_pickle('x')", "ds.export('x.parquet')"), ("ds.axes", "ds.schema"), ("ds.between_time('9', '10')", "ds.to_table(filter='price > 3')"),
        ("ds.crosstab()", "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"),
        ("ds.combine_first(df)", "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"),
        ("ds.add_prefix('x')", "ds.alter_columns({'path': 'price', 'name': 'new_name'})"), ("ds.squeeze()", "ds.to_pandas()"), ("ds.to_period()", "ds.to_pandas()"),
        ("lk.read_hdf('x.h5')", "lk.write_dataset(pd.read_hdf("),
    ],
    "Polars, more": [
        ("ds.null_count()", "ds['price'].statistics().nulls"), ("ds.n_unique()", "ds['name'].statistics().distinct"), ("ds.rows()", "ds.to_table().to_pylist()"),
        ("ds.row(0)", "ds.take([3])"), ("ds.top_k(3, by='price')", "lk.sql('SELECT * FROM ds ORDER BY price')"),
        ("ds.filter(lk.col('price') > 3)", "ds.to_table(filter='price > 3')"), ("ds.remove(lk.col('price') > 3)", "ds.delete('price > 3')"),
        ("ds.select(lk.col('id'))", "ds.to_table(columns=['id'])"), ("ds.select('id', 'price')", "ds.to_table(columns=['id'])"), ("ds.lazy().filter('x')", "lk.scan_polars(ds)"),
        ("ds.sample(n=2)", "ds.sample(5)"), ("ds.slice(2, 3)", ""), ("ds.update(df)", "ds.merge_insert(...).when_matched_update_all().execute(rows)"),
        ("ds.join(ds, on='id')", "lk.sql('SELECT * FROM ds JOIN df USING (id)')"), ("ds.sort('price', descending=True)", "lk.sql('SELECT * FROM ds ORDER BY price')"),
        ("ds.to_table(columns=[lk.col('price')])", ""), ("ds.to_table(columns='id')", "['id']"), ("ds.to_pandas('id')", "['id']"),
        ("lk.scan_ndjson('x')", "lk.write_dataset(pd.read_json("), ("lk.LazyFrame(df)", "lk.scan_polars(ds)"), ("lk.scan_delta('x')", "lk.write_dataset(pl.read_delta("),
        ("lk.read_database('SELECT 1', None)", "lk.write_dataset(pl.read_database("), ("lk.from_dicts([{'a': 1}])", "lk.write_dataset(df, 'new.lance')"),
        ("ds.estimated_size()", "ds.stats.dataset_stats()"), ("ds.with_row_index()", "ds.to_table(with_row_id=True)"), ("ds.with_row_count()", "ds.to_table(with_row_id=True)"),
        ("ds.partition_by('name')", "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"),
        ("ds.group_by_dynamic('day')", "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"), ("ds.item()", "ds.take([3])"), ("ds.to_series()", "ds['price']"),
        ("ds.get_columns()", "ds.schema.names"), ("ds.drop_nans()", "ds.to_table(filter='price IS NOT NULL')"), ("ds.gather_every(2)", "ds[::2]"), ("ds.reverse()", "ds[::-1]"),
        ("ds.sink_parquet('x.parquet')", "ds.export('x.parquet')"), ("ds.sink_csv('x.csv')", "ds.export('x.csv')"), ("ds.write_ndjson('x')", "ds.export('x.csv')"),
        ("ds.write_delta('x')", "ds.to_polars()"), ("ds.collect_schema()", "ds.schema"), ("ds.bottom_k(3, by='price')", "lk.sql('SELECT * FROM ds ORDER BY price')"),
        ("ds.sql('SELECT * FROM self').collect()", "lk.sql('SELECT * FROM ds')"), ("ds.flags", "ds.schema"), ("ds.hash_rows()", "ds.to_pandas()"),
    ],
    "DuckDB, PySpark, more": [
        ("ds.fetchone()", "ds.head(1)"), ("ds.fetchmany(3)", "ds.head(3)"), ("ds.query('t', 'SELECT * FROM t')", "ds.to_table(filter='price > 3')"),
        ("ds.aggregate('avg(price)')", "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"), ("ds.write.mode('overwrite').save()", "ds.insert(df)"),
        ("ds.write.format('lance')", "ds.insert(df)"), ("ds.isEmpty()", "len(ds) == 0"), ("ds.take(3)", "[0, 5, 7]"), ("ds.head(n=1)", "ds.head(3)"),
        ("lk.sql('SELECT * FROM ds').fetchmany(3)", "fetchall()"), ("lk.sql('SELECT * FROM ds').df().head()", ""), ("lk.sql('SELECT * FROM ds').pl().head()", ""),
        ("lk.sql('SELECT * FROM ds').filter('id > 3')", "lk.sql("), ("lk.sql('SELECT * FROM ds').order('id')", "lk.sql("), ("lk.sql('SELECT * FROM ds').head()", ""),
        ("lk.sql('DESCRIBE ds')", ""), ("lk.from_query('SELECT 1')", "lk.sql('SELECT * FROM ds')"), ("lk.createDataFrame([])", "lk.write_dataset(df, 'new.lance')"),
        ("lk.describe(uri)", "lk.dataset(uri)"), ("lk.desc('price')", "lk.ColumnOrdering('price', ascending=False)"),
        ("lk.asc('price')", "lk.ColumnOrdering('price', ascending=False)"), ("ds.sql_query()", "lk.sql('SELECT * FROM ds')"), ("ds.alias('t')", "lk.sql('SELECT * FROM ds')"),
        ("ds.except_(ds)", "ds.diff()"), ("ds.exceptAll(ds)", "ds.diff()"), ("ds.subtract(ds)", "ds.diff()"),
        ("ds.intersect(ds)", "lk.sql('SELECT * FROM ds JOIN df USING (id)')"), ("ds.unionByName(df)", "lk.sql('SELECT * FROM ds UNION ALL SELECT * FROM df')"),
        ("ds.selectExpr('price + 1')", "ds.to_table(columns={'y': 'price'})"), ("ds.rdd", "ds.to_spark()"),
        ("ds.sortWithinPartitions('id')", "lk.sql('SELECT * FROM ds ORDER BY price')"), ("ds.randomSplit([0.5, 0.5])", "ds.sample(5)"), ("ds.writeStream", "lk.stream_sink"),
        ("ds.readStream", "ds.changes(1)"), ("ds.crosstab('id', 'name')", "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"),
        ("ds.freqItems(['name'])", "ds['name'].statistics().top"), ("ds.storageLevel", "lk.cache_info()"),
        ("ds.approxQuantile('price', [0.5], 0)", "lk.sql('SELECT median(price) FROM ds')"), ("ds.colRegex('p.*')", "ds.columns"),
        ("ds.sql('SELECT 1').show()", "lk.sql('SELECT * FROM ds')"),
    ],
    "Delta, Iceberg, more": [
        ("lk.DeltaTable(uri, version=1)", "lk.dataset(uri)"), ("lk.load_table('a.b')", "lk.dataset(uri)"), ("lk.DeltaTable.is_deltatable(uri)", "lk.dataset(uri)"),
        ("ds.to_pyarrow_table()", "ds.to_table()"), ("ds.partitions()", "ds.get_fragments()"), ("ds.get_add_actions()", "ds.all_files()"),
        ("ds.alter.add_columns([])", "ds.alter_columns({"), ("ds.repair()", "ds.validate()"), ("ds.load_as_version('2020-01-01')", "ds.checkout_version(1)"),
        ("ds.vacuum(retention_hours=0, dry_run=False)", "ds.cleanup_old_versions()"), ("ds.optimize.z_order(['id'])", "ds.optimize.compact_files()"),
        ("ds.restoreToTimestamp('2099-01-01')", "ds.restore(1)"), ("ds.history(5)", "ds.versions()"), ("ds.toDF()", "ds.to_spark()"),
        ("ds.merge(df, predicate='a.id = b.id', source_alias='a', target_alias='b')", "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"),
        ("ds.current_snapshot().snapshot_id", "ds.version"), ("ds.transaction()", "ds.insert(df)"),
        ("ds.upsert(df, join_cols=['id'])", "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"),
        ("ds.to_table(row_filter='price > 3', selected_fields=['id'])", "filter='price > 3'"), ("ds.scan(row_filter='x', limit=1)", "ds.scanner()"),
        ("ds.overwrite(df, overwrite_filter='x')", "lk.write_dataset(df, uri, mode='overwrite')"),
        ("lk.write_dataset(df, uri, mode='append', schema_mode='overwrite')", "mode='overwrite'"),
        ("lk.write_dataset(df, uri, mode='append', partition_by=['day'])", "ds.create_scalar_index('day', 'ZONEMAP')"),
        ("lk.write_dataset(df, uri, mode='ignore')", "mode='create'"), ("lk.write_dataset(df, uri, mode='append', engine='rust')", "It takes"),
        ("lk.convert_to_deltalake(uri)", "lk.write_dataset(df, 'new.lance')"), ("lk.load_catalog('default')", "lk.dataset(uri)"), ("ds.protocol()", "ds.data_storage_version"),
        ("ds.transaction_version('a')", "ds.versions()"), ("ds.create_checkpoint()", "ds.cleanup_old_versions()"), ("ds.cleanup_metadata()", "ds.cleanup_old_versions()"),
        ("ds.generate()", "ds.all_files()"), ("ds.restore_to_version(1)", "ds.restore(1)"), ("ds.inspect.snapshots()", "ds.versions()"), ("ds.inspect.files()", "ds.versions()"),
        ("ds.manage_snapshots().create_tag(1, 'x')", "ds.tags.create('x')"), ("ds.maintenance.expire_snapshots()", "ds.cleanup_old_versions()"),
        ("ds.snapshot_by_id(1)", "ds.checkout_version(1)"), ("ds.snapshot_by_name('first')", "ds.tags['name']"), ("ds.snapshot_as_of_timestamp(1)", "ds.checkout_version(1)"),
        ("ds.refs()", "ds.tags.list()"), ("ds.update_spec()", "ds.create_scalar_index('id', 'BTREE')"), ("ds.spec()", "ds.describe_indices()"),
        ("ds.sort_order()", "ds.describe_indices()"),
        ("ds.dynamic_partition_overwrite(df)", "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"), ("ds.add_files(['x'])", "ds.insert("),
        ("ds.rename_table('x')", "ds.deep_clone('copy.lance')"), ("ds.delete(delete_filter='id = 1')", "ds.delete('id = 1')"),
        ("lk.write_dataset(df, uri, mode='overwrite', overwrite_schema=True)", "mode='overwrite'"),
        ("lk.write_dataset(df, uri, mode='append', merge_schema=True)", "schema_mode='merge'"),
        ("lk.write_dataset(df, uri, mode='append', mergeSchema=True)", "schema_mode='merge'"),
    ],
    "git, lakeFS, more": [
        ("ds.reset('HEAD~1')", "ds.restore(1)"), ("ds.reset(hard=True)", "ds.restore(1)"),
        ("ds.merge_into('old')", "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"), ("ds.delete_tag('first')", "ds.tags.delete('x')"),
        ("ds.commit('x')", "ds.insert(df, commit_message='message')"), ("ds.diff('old')", "('old', None)"), ("ds.diff('main')", "('main', None)"), ("ds.diff(1, 2)", ""),
        ("ds.log(n=3)", "ds.versions()"), ("ds.log('--oneline')", "ds.versions()"), ("ds.fetch_latest()", "ds.checkout_latest()"),
        ("ds.versions()[1].checkout()", "ds.checkout_version(2)"), ("ds.tags['first'].delete()", "ds.delete('price > 3')"), ("ds.branches.merge('old', into='main')", ""),
        ("lk.init('x')", "lk.write_dataset(df, 'new.lance')"), ("lk.clone(uri, 'x')", "ds.deep_clone('copy.lance')"), ("lk.repository('x')", "lk.dataset(uri)"),
        ("lk.checkout('x')", "lk.dataset(uri)"), ("lk.merge('x')", "ds.merge_insert('id').when_matched_update_all().when_not_matched_insert_all().execute(df)"),
        ("ds.head_version", "ds.version"), ("ds.HEAD", "ds.version"), ("ds.main", "ds.branches['main']"), ("ds.amend('x')", "ds.undo()"), ("ds.show_commit(1)", "ds.changes(1)"),
        ("ds.squash()", "ds.optimize.compact_files()"), ("ds.fast_forward('old')", "ds.branches.merge('x')"), ("ds.branch_from('x')", "ds.create_branch('x')"),
        ("ds.rename_branch('old', 'new')", "ds.create_branch('new'"), ("ds.uncommitted()", "ds.diff()"), ("ds.diff('HEAD~1')", "ds.checkout_version(ds.version - 1)"),
        ("ds.diff(-1)", "ds.checkout_version(ds.version - 1)"), ("ds.parent", "ds.checkout_version("), ("ds.hash", "ds.version"), ("ds.author", "ds.versions()[-1].provenance"),
        ("ds.remote", "ds.uri"), ("ds.checkout_version('HEAD')", "ds.latest()"), ("ds.checkout_version('latest')", "ds.latest()"),
        ("ds.checkout_version('HEAD~1')", "ds.checkout_version(ds.version - 1)"), ("ds.revert()", "ds.revert(2)"), ("ds.merge('old')", "ds.branches.merge('x')"),
        ("ds.create_branch()", "ds.create_branch('x')"), ("ds.versions(5)", "ds.versions()[-5:]"), ("ds.versions(limit=5)", "ds.versions()[-5:]"),
        ("ds.tags.create('x', message='m')", "ds.tags.replace_metadata('x', {'message': 'm'})"), ("ds.branches['old'].merge('main')", "ds.branches.merge('x')"),
    ],
    "pylance, LanceDB, HF, dplyr, more": [
        ("lk.write_lance(df, 'x.lance')", "lk.write_dataset(df, 'new.lance')"), ("lk.open_table('t')", "lk.dataset(uri)"), ("lk.Dataset.from_dict({'a': [1]})", "lk.dataset(uri)"),
        ("ds.count_rows(filter='price > 3')", ""), ("ds.to_batches(batch_size=5)", ""), ("ds.lance_schema", ""), ("ds.list_indices()", ""),
        ("ds.create_index(['id'], 'BTREE')", "create_scalar_index"), ("ds.add_columns({'x': 'price * 2'})", ""), ("ds.merge(df, 'id')", "update()"),
        ("ds.search('words').limit(5).to_pandas()", "ds.to_table(nearest="), ("ds.search([1.0]).where('x').to_list()", "ds.to_table(nearest="),
        ("ds.query().where('price > 3').to_pandas()", "ds.to_table(filter='price > 3')"), ("ds.to_lance()", "ds.deep_clone('copy.lance')"),
        ("ds.checkout('first')", "ds.branches['x']"), ("ds.add(df, mode='overwrite')", "ds.insert(df)"),
        ("ds.update(where='id = 1', values={'price': 0})", "ds.update({'price': 0}"), ("ds.delete_columns(['price'])", "ds.drop_columns(['price'])"),
        ("ds.map(len, batched=True)", "ds.add_columns(function)"), ("ds.select(range(3))", "ds.to_table(columns=['id'])"),
        ("ds.cast_column('price', 'float')", "ds.alter_columns({'path': 'price', 'data_type': pa.float32()})"), ("ds.unique('name')", "lk.sql('SELECT DISTINCT name FROM ds')"),
        ("ds.remove_columns(['price'])", "ds.drop_columns(['price'])"), ("ds.take(range(3))", ""), ("ds.mutate(x=1)", "ds.add_columns({'new': '1'})"),
        ("ds.arrange('price')", "lk.sql('SELECT * FROM ds ORDER BY price')"), ("ds.summarise('x')", "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"),
        ("ds.summarize('x')", "lk.sql('SELECT name, avg(price) FROM ds GROUP BY name')"), ("ds.pull('price')", "ds.checkout_latest()"),
        ("lk.load_from_disk('x')", "lk.dataset(uri)"), ("lk.concatenate_datasets([ds, ds])", "lk.sql('SELECT * FROM ds UNION ALL SELECT * FROM df')"), ("lk.LanceDB", "lk.dataset(uri)"), ("lk.Schema", "pa.schema("),
        ("lk.pydantic", "pa.schema("), ("lk.embeddings", "ds.add_columns(function)"), ("lk.nearest_to([1.0])", "nearest="), ("ds.wait_for_index(['x'])", "ds.describe_indices()"),
        ("ds.embedding_functions", "ds.metadata"), ("ds.features", "ds.schema"), ("ds.train_test_split(0.2)", "ds.sample(5)"), ("ds.set_format('torch')", "ds.to_batches()"),
        ("ds.with_format('numpy')", "ds.to_batches()"), ("ds.save_to_disk('x')", "ds.deep_clone('copy.lance')"), ("ds.push_to_hub('x')", "ds.export('x.parquet')"),
        ("ds.shard(4, 0)", "ds.get_fragments()"), ("ds.to_iterable_dataset()", "ds.to_batches()"), ("ds.skip(3)", "ds[3:]"), ("ds.batch(4)", "ds.to_batches()"),
        ("ds.slice_head(n=3)", "ds.head(3)"), ("ds.slice_sample(n=3)", "ds.sample(5)"), ("ds.slice_max('price')", "lk.sql('SELECT * FROM ds ORDER BY price')"),
        ("ds.n_distinct()", "ds['name'].statistics().distinct"), ("ds.nrow()", "len(ds)"), ("ds.ncol()", "len(ds.columns)"),
        ("ds.left_join(df)", "lk.sql('SELECT * FROM ds JOIN df USING (id)')"), ("ds.inner_join(df)", "lk.sql('SELECT * FROM ds JOIN df USING (id)')"),
        ("ds.bind_rows(df)", "lk.sql('SELECT * FROM ds UNION ALL SELECT * FROM df')"), ("ds.relocate('price')", "ds.to_table(columns=['id'])"), ("ds.tally()", "ds.count_rows()"),
        ("ds.transmute('x')", "ds.to_table(columns={'y': 'price'})"), ("ds.drop_na()", "ds.to_table(filter='price IS NOT NULL')"),
        ("ds.rename_with(str)", "ds.alter_columns({'path': 'price', 'name': 'new_name'})"), ("ds.anti_join(df)", "lk.sql("), ("ds.lag('price')", "ds.to_pandas()"),
        ("ds.update(values_sql={'price': 'price + 1'})", "ds.update({'price': 'price + 1'}, where='price > 3')"),
    ],
    "a column, more": [
        ("ds['price'].quantile(0.5)", "SELECT median(price)"), ("ds['price'].shape", "len(ds)"), ("ds['price'].describe", "ds['price'].statistics()"),
        ("ds['name'].str.contains('a')", "name"), ("ds['name'].contains('a')", "name"), ("ds['price'].delete()", "ds.drop_columns(['price'])"), ("ds['price'].count()", "len(ds)"),
        ("ds['price'] in [1]", "filter="), ("ds['price'] & True", "filter="), ("ds['price'].plot.hist()", "ds['price'].statistics()"), ("ds['price'].loc[0]", "['price']"),
        ("ds['price'].create_index()", "ds.create_scalar_index('price', 'BTREE')"), ("ds['price'].nullable", ""), ("ds['price'].nlargest(3)", "ORDER BY price"),
        ("ds['price'].argmax()", "ORDER BY price"), ("ds['price'].idxmax()", "ORDER BY price"), ("ds['price'].cumsum()", "['price']"),
        ("ds['price'].is_unique", "statistics().distinct"), ("ds['price'].gt(3)", "filter="), ("ds['price'].eq(3)", "filter="), ("ds['price'].first()", "['price']"),
        ("ds['price'].last()", "['price']"), ("ds['price'].clip(0, 1)", "ds.update({'price'"), ("ds['price'].T", "['price']"), ("ds['price'].to_batches()", "['price']"),
        ("ds['name'].like('a%')", "name"), ("ds['name'].startswith('a')", "name"), ("ds['price'].sort_index()", "ORDER BY price"), ("ds['price'].set(1)", "ds.update({'price'"),
        ("ds['price'].update(1)", "ds.update({'price'"), ("ds['price'].groupby('name')", "GROUP BY"), ("ds['price'].corr(ds['id'])", "ds.to_pandas()"),
        ("ds['price'].any()", "filter="), ("ds['price'].field", "ds.schema.field('price')"),
    ],
}  # fmt: skip


def runs(line: str, folder: Path) -> str:
    """Return the error of a line, or an empty text if it runs."""
    names = world(folder)
    exec("d = ds.diff(1)", names)
    line = line.replace("lk.sql(...)", "lk.sql('SELECT * FROM ds')")
    try:
        exec(compile(line, "<line>", "exec"), names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(part: str = "") -> None:
    counts: Counter[str] = Counter()
    for on, guesses in GUESSES.items():
        for typed, line in guesses:
            if part and part not in on:
                continue
            with tempfile.TemporaryDirectory() as folder:
                check = "" if line else "True"
                found = outcome(Task("", "", typed, check, line), Path(folder))
            kind = found if found in {"works", "answered"} else "fails"
            counts[kind] += 1
            if kind == "fails":
                print(f"{typed}\n    {line}\n    {found[:160]}")
    print(dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])

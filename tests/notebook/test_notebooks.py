"""The notebooks: they run, show what they should, and their datasets open in pylance."""

import functools
import importlib.util
import re
import shutil
from pathlib import Path
from urllib.request import urlopen

import lance
import nbformat
import pyarrow as pa
import pytest

import lancekit as lk
from tests.support.number_texts import ungrouped

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = [
    "01_quickstart",
    "02_data_files",
    "03_transactions",
    "04_pipeline",
    "05_time_travel",
    "06_search",
    "07_small_writes",
    "08_every_file",
    "09_branches",
    "10_write_ahead_logs",
]
#: run in a whole run alone: half a minute of Spark, whose calls tests/spark has one by one
LONG = "04_pipeline"
MONTHS = [
    27004,
    51955,
    80789,
    109119,
    137915,
    166158,
    195583,
    224910,
    252484,
    281373,
    308641,
    336776,
]


def demo():
    spec = importlib.util.spec_from_file_location("run_demo", NOTEBOOKS / "run_demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_writes_pages_that_a_click_opens(tmp_path):
    folder = tmp_path / "a demo"
    folder.mkdir()
    shown = lk.write_dataset({"x": [1]}, "memory://page")._repr_mimebundle_()
    outputs = [nbformat.v4.new_output("display_data", shown)]
    cell = nbformat.v4.new_code_cell("ds", outputs=outputs)
    module = demo()
    module.write_page(nbformat.v4.new_notebook(cells=[cell]), folder / "small.ipynb")
    uri = module.pages(folder, [tmp_path / "small.ipynb"]).split()[0]
    page = urlopen(uri).read().decode()
    assert uri.startswith("file:///")
    assert 'class="lancekit"' in page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="module")
def names(pytestconfig):
    """The notebooks of this run."""
    return [name for name in NAMES if name != LONG or pytestconfig.getoption("--whole")]


@pytest.fixture(scope="module")
def run(folder, names):
    """Return what executes a notebook, all in one folder, as `make demo` does; each once."""

    @functools.cache
    def run_once(name):
        if name not in names:
            pytest.skip("only in a whole run: `make notebooks` has it, too")
        return demo().execute(NOTEBOOKS / f"{name}.ipynb", folder)

    return run_once


@pytest.fixture(scope="module")
def executed(run):
    return run("01_quickstart")


@pytest.fixture(scope="module")
def of_files(run):
    return run("02_data_files")


@pytest.fixture(scope="module")
def of_writers(run):
    return run("03_transactions")


@pytest.fixture(scope="module")
def of_pipeline(run):
    return run("04_pipeline")


@pytest.fixture(scope="module")
def of_history(run):
    return run("05_time_travel")


@pytest.fixture(scope="module")
def of_search(run):
    return run("06_search")


@pytest.fixture(scope="module")
def of_shards(run):
    return run("07_small_writes")


@pytest.fixture(scope="module")
def of_every_file(run):
    return run("08_every_file")


@pytest.fixture(scope="module")
def of_branches(run):
    return run("09_branches")


@pytest.fixture(scope="module")
def of_logs(run):
    return run("10_write_ahead_logs")


def outputs(notebook):
    """Return (source, output) for what every code cell shows; each shows something."""
    pairs = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs, cell.source
            printed = None
            for output in cell.outputs:
                if output.output_type == "stream":
                    assert output.name == "stdout", output.text
                    # a busy kernel sends what a cell prints in several pieces
                    if printed is None:
                        printed = {"text/plain": ""}
                        pairs.append((cell.source, printed))
                    printed["text/plain"] += output.text
                else:
                    assert output.output_type in {"execute_result", "display_data"}, cell.source
                    pairs.append((cell.source, output.data))
    return pairs


def shape(text):
    """Return an output's text without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "<time>", text)
    text = re.sub(r"just now|\d+ (s|min|h|days) ago", "<age>", text)
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{6}", "<time>", text)
    text = re.sub(r"\d+\.\d\d s\b", "<seconds>", text)
    text = re.sub(r"[\d.]+ [KM]iB|[\d,]+ bytes|(?<=BlobFile size=)\d+", "<size>", text)
    text = re.sub(r"\b[01]{24}[0-9a-f]{26}\b", "<file>", text)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>", text)
    # threads share entries of a log
    text = re.sub(r"log position +entry \d+", "log position entry <position>", text)
    if "log position" in text:
        text = re.sub(r"(<uuid>( +\d+){2}) +\d+", r"\1 <position>", text)
    if ", ms" in text:
        text = re.sub(r"\d+\.\d\b", "<measured>", text)
    if " partitions: " in text:  # where their middles are found hangs on the last bits of sums
        text = re.sub(r"\d+%", "<share>", text)
    # how many fragments Spark writes depends on the machine
    text = re.sub(r"\d+ fragments? in \d+ data files?", "<fragments>", text)
    text = re.sub(r"fragments +\d+ added", "<fragments> added", re.sub(r" +", " ", text))
    # a kernel sends the end of the last line by itself, on a busy machine after the cell has ended
    return text.rstrip("\n")


@functools.cache
def read(name):
    """Return a notebook as it is saved."""
    import nbformat  # takes seconds, in each worker

    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    return notebook


@pytest.mark.notebook
@pytest.mark.torture
@pytest.mark.parametrize("name", NAMES)
def test_the_saved_outputs_are_those_of_a_run(run, name):
    for (source, now), (_, then) in zip(outputs(run(name)), outputs(read(name)), strict=True):
        assert now.keys() == then.keys()
        assert shape(now["text/plain"]) == shape(then["text/plain"]), source


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_notebook_is_fit_to_be_read(name):
    path = NOTEBOOKS / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    assert not re.search(r"(/tmp|/home|/root|/work|/Users|/var|site-packages|[A-Z]:\\\\)", text)
    notebook = read(name)
    numbers = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert numbers == list(range(1, len(numbers) + 1))
    outputs(notebook)
    assert "could not be drawn" not in text


def test_every_notebook_is_tested():
    module = demo()
    assert [path.stem for path in module.NOTEBOOKS] == NAMES
    assert [path.stem for path in module.DEMO] == [NAMES[0], NAMES[2], NAMES[4]]
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == NAMES


# ---- the quickstart


@pytest.mark.notebook
def test_it_shows_what_it_should(executed):
    shown = {source.splitlines()[-1]: data for source, data in outputs(executed)}
    assert len(shown["lk.plot_history(ds)"]["text/html"]) < 60_000
    heads = [data["text/plain"].splitlines()[0] for _, data in outputs(executed)]
    heads = [ungrouped(head) for head in heads]
    for said in (
        "flights.lance · main:1 · 27004 rows × 19 columns · ",  # noqa: RUF001
        "12 versions · main:1 to main:12",
        "1 tag",
        "deleted 8255 rows · main:13 · ",
        "merged into main:14 · 1 inserted · 10 updated · 0 deleted · ",
        "merged into main:15 · 0 inserted · 12069 updated · 0 deleted · ",
        "3 versions · experiment:1 to experiment:3",
        "1 branch",
        "mine.lance · main:2 · 4637 rows × 19 columns · ",  # noqa: RUF001
        "flights.lance · main:15 · 328522 rows × 19 columns · ",  # noqa: RUF001
        "History of flights.lance",
    ):
        assert [head for head in heads if head.startswith(said)], said
    drawn = ungrouped(shown["lk.plot_history(ds)"]["text/plain"])
    for said in ("main 15 versions", "27004 to 328522", "jan at 1", "experiment 3 versions"):
        assert said in re.sub(" +", " ", drawn), said
    merges = [text["text/plain"] for source, text in outputs(executed) if "merge_insert" in source]
    assert ["engine Spark" in re.sub(" +", " ", text) for text in merges] == [False, True]
    assert "exact: concurrent inserts" in merges[0]


@pytest.mark.notebook
def test_its_datasets_open_in_the_reference(executed, folder):
    uri = str(folder / "flights.lance")
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    counts = [v["metadata"]["total_rows"] for v in theirs.versions()]
    assert list(map(int, counts)) == [*MONTHS, 328521, 328522, 328522]
    for version in (None, 1, 6, 12, 13, 14, 15, "jan", ("experiment", None), ("experiment", 2)):
        one, other = ours, theirs
        if version is not None:
            one, other = ours.checkout_version(version), theirs.checkout_version(version)
        assert one.to_table() == other.to_table(), version
    clone = str(folder / "mine.lance")
    assert lk.dataset(clone).to_table() == lance.dataset(clone).to_table()
    assert ours.tags.list().keys() == theirs.tags.list().keys() == {"jan"}
    assert ours.branches.list().keys() == theirs.branches.list().keys() == {"experiment"}


@pytest.mark.notebook
def test_the_oldest_release_opens_them_too(executed, folder, pylance4):
    """Every version, branch and clone; a tag on a branch is more than 4.0.0 can open."""
    uri, clone = str(folder / "flights.lance"), str(folder / "mine.lance")
    found = pylance4(
        """
ds = lance.dataset(arguments["uri"])
versions = [lance.dataset(arguments["uri"], version=number) for number in range(1, 16)]
result = {
    "versions": [version.to_table().num_rows for version in versions],
    "tag": lance.dataset(arguments["uri"], version="jan").to_table().num_rows,
    "branch": ds.checkout_version(("experiment", None)).to_table().num_rows,
    "clone": lance.dataset(arguments["clone"]).to_table().num_rows,
    "late": ds.count_rows("dep_delay > 60 AND origin = 'JFK'"),
}
""",
        uri=uri,
        clone=clone,
    )
    assert found["versions"] == [*MONTHS, 328521, 328522, 328522]
    assert found["tag"] == MONTHS[0]
    assert found["branch"] == lk.dataset(uri, version=("experiment", None)).count_rows()
    assert found["clone"] == lk.dataset(clone).count_rows()
    assert found["late"] == lk.dataset(uri).count_rows("dep_delay > 60 AND origin = 'JFK'")


@pytest.mark.notebook
def test_what_the_references_write_on_them_reads_back(executed, folder, tmp_path, pylance4):
    uri = str(tmp_path / "flights.lance")
    shutil.copytree(folder / "flights.lance", uri)
    theirs = lance.dataset(uri)
    some = theirs.to_table(limit=5)
    key = ["time_hour", "carrier", "flight"]
    theirs.delete("carrier = 'AA'")
    merge = theirs.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
    merge.execute(some)
    lance.write_dataset(theirs.to_table(limit=7), uri, mode="append")
    lance.dataset(uri).tags.create("theirs", 16)
    pylance4(
        """
ds = lance.dataset(arguments["uri"])
some = ds.to_table(limit=3)
ds.delete("carrier = 'UA' AND month = 2")
lance.write_dataset(some, arguments["uri"], mode="append")
builder = lance.dataset(arguments["uri"]).merge_insert(["time_hour", "carrier", "flight"])
result = builder.when_matched_update_all().when_not_matched_insert_all().execute(some.slice(0, 1))
""",
        uri=uri,
    )
    ours = lk.dataset(uri)
    assert ours.version == 21
    for version in range(15, 22):
        one, other = ours.checkout_version(version), lance.dataset(uri, version=version)
        assert one.to_table() == other.to_table(), version
    assert ours.checkout_version("theirs").version == 16
    late = ours.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
    assert dict(late.execute(some))["num_updated_rows"] >= 5


# ---- data files

DATASETS = {"nested": 336_776, "old": 336_776, "airlines": 16, "checked": 336_776}


@pytest.mark.notebook
def test_it_shows_what_files_are_made_of(of_files):
    shown = {source.splitlines()[-1]: data["text/plain"] for source, data in outputs(of_files)}
    assert ungrouped(shown["ds"]).startswith("nested.lance · main:1 · 336776 rows")
    (metadata,) = (text for text in shown.values() if text.startswith("Data file 2.2"))
    assert len(metadata.splitlines()) == 16
    assert "carrier: 1 page" in metadata
    assert "into a dictionary of 16 (strings)" in metadata
    (found,) = (text for text in shown.values() if "is damaged" in text)
    assert found.startswith("damaged.lance/data/")
    assert "column 'flight', page 0 is damaged: the page does not match its checksum" in found
    (older,) = (text for text in shown.values() if "'equal'" in text)
    assert "'version': '2.0'" in older
    assert "'equal': True" in older
    pictures = [data for _, data in outputs(of_files) if "image/png" in data]
    assert len(pictures) == 2


@pytest.mark.notebook
def test_its_files_are_read_alike_by_the_references(of_files, folder, pylance4):
    for name in DATASETS:
        uri = str(folder / f"{name}.lance")
        columns = ["carrier", "name"] if name == "airlines" else None
        assert lk.dataset(uri).to_table(columns) == lance.dataset(uri).to_table(columns), name
    uri = str(folder / "airlines.lance")
    (theirs,) = lance.dataset(uri).take_blobs("delays", indices=[3])
    (ours,) = lk.dataset(uri).take_blobs("delays", indices=[3])
    assert ours.read() == theirs.read()
    found = pylance4(
        """
result = {}
for name in arguments["names"]:
    table = lance.dataset(f"{arguments['folder']}/{name}.lance").to_table(columns=["carrier"])
    result[name] = table.num_rows
""",
        folder=str(folder),
        names=list(DATASETS),
    )
    assert found == DATASETS


# ---- what surrounds them


@pytest.mark.notebook
@pytest.mark.torture
def test_the_demo_says_what_it_did_and_where_to_look(run, names, folder):
    module = demo()
    for name in names:
        run(name)
    said = module.report(folder, [path for path in module.NOTEBOOKS if path.stem in names])
    assert "15 versions, 328,522 rows at the newest" in said
    assert "jan (version 1)" in said
    assert "3 versions, 41,542 rows" in said
    assert "9 versions by several writers, 80,666 rows" in said
    changes = "8 versions, 336,779 rows; 791 changes of them on the board"
    assert (changes in said) == (LONG in names)
    assert "20 versions, 252,484 rows, 2 constraints; branch september merged" in said
    assert re.search(r"nested .* 1\d\.\d MB in the newest format, 39\.\d MB in the oldest", said)
    assert str(folder / "flights.lance") in said
    assert "carrier_idx (Bitmap), flight_idx (BTree)" in said
    assert re.search(r"tour +\d+ files, each of them opened", said)
    assert "10 versions, 336,776 rows; merges of branches, undone" in said
    assert "3,664 rows, 0 in quarantine" in said
    assert "692 rows by key, which 4 shards brought in 6 generations" in said
    assert all(f"{folder / name}.html" in said for name in names)


def test_a_page_of_the_demo_needs_no_jupyter(tmp_path):
    """`make lab` opens no folder but its own, so the demo names pages for the browser."""
    demo().write_page(read(NAMES[0]), tmp_path / f"{NAMES[0]}.ipynb")
    (page,) = tmp_path.iterdir()
    assert page.name == f"{NAMES[0]}.html"
    text = page.read_text(encoding="utf-8")
    assert f"<title>{NAMES[0]}</title>" in text
    assert 'class="lancekit' in text


def test_the_pictures_of_the_readme_are_there_and_small():
    root = NOTEBOOKS.parent
    readme = (root / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', readme)
    assert len(pictures) == 3
    assert all((root / picture).stat().st_size < 120_000 for picture in pictures)
    links = re.findall(r"\]\(([^)h][^)]*)\)", readme)
    assert all((root / link).exists() for link in links)
    assert readme.count("alt=") == 2


# ---- many writers


@pytest.mark.notebook
def test_nothing_is_lost_between_writers(of_writers):
    heads = [data["text/plain"].splitlines()[0] for _, data in outputs(of_writers)]
    heads = [ungrouped(head) for head in heads]
    for said in (
        "shared.lance · main:1 · 27004 rows × 8 columns · ",  # noqa: RUF001
        "deleted 62 rows · main:3 · ",
        "merged into main:5 · 0 inserted · 1 updated · 0 deleted · ",
        "IncompatibleConflictError('This Append, based on version 1 of ada, conflicts with ",
        "delta main:1 → main:6 · 5 commits",
        "{'inserted': 1, 'updated': 3, 'deleted': 124}",
        "append · read version 6",
        "7 fragments into 1 · main:9 · 127 deleted rows removed · ",
        "6 old versions to remove · ",
        "9 versions · main:1 to main:9",
    ):
        assert [head for head in heads if head.startswith(said)], said
    refused = next(data for source, data in outputs(of_writers) if source.endswith("refused"))
    assert "your append conflicts with the overwrite of ada:2" in refused["text/html"]


@pytest.mark.notebook
def test_what_the_writers_wrote_opens_in_the_reference(of_writers, folder):
    uri = str(folder / "shared.lance")
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    columns = [*ours.schema.names, "_rowid", "_row_created_at_version"]
    for number in range(1, ours.version + 1):
        one, other = ours.checkout_version(number), theirs.checkout_version(number)
        assert one.to_table(columns=columns) == other.to_table(columns=columns), number
    delta, reference = (ds.delta(compared_against=1) for ds in (ours, theirs))
    for rows in ("get_inserted_rows", "get_updated_rows"):
        mine, other = (getattr(d, rows)().read_all().sort_by("_rowid") for d in (delta, reference))
        assert mine.select(columns) == other.select(columns), rows


# ---- the pipeline


@pytest.mark.notebook
@pytest.mark.torture
def test_small_and_large_work_go_through_the_same_calls(of_pipeline):
    texts = [ungrouped(data["text/plain"]) for _, data in outputs(of_pipeline)]
    heads = [text.splitlines()[0] for text in texts]
    for said in (
        "merge into main:1 · 3 to insert · 760 to update · 0 to delete · 336016 unchanged",
        "merged into main:2 · 3 inserted · 760 updated · 0 deleted · ",
        "update of main:2 · engine: Spark · ",
        "2 versions · main:1 to main:2",
        "compact_files of main:6 · engine: this process · ",
        "10 fragments into 1 · main:8 · 788 deleted rows removed · ",
        "7 old versions to remove · ",
    ):
        assert [head for head in heads if head.startswith(said)], said


@pytest.mark.notebook
@pytest.mark.torture
def test_what_the_pipeline_wrote_opens_in_the_reference(of_pipeline, folder):
    for name in ("airport", "board"):
        uri = str(folder / f"{name}.lance")
        ours, theirs = lk.dataset(uri), lance.dataset(uri)
        for number in range(1, ours.version + 1):
            one, other = ours.checkout_version(number), theirs.checkout_version(number)
            assert one.to_table() == other.to_table(), (name, number)


# ---- time travel


@pytest.mark.notebook
def test_a_history_answers(of_history):
    texts = [ungrouped(data["text/plain"]) for _, data in outputs(of_history)]
    heads = [text.splitlines()[0] for text in texts]
    for said in (
        "15 versions · main:1 to main:15",
        "bad since main:9 · 5 versions tested",
        "(DiffCounts(inserted=0, deleted=0, updated=40, ",
        "reverted on main:16 · 0 inserted · 40 updated · 0 deleted · ",
        "27574 rows break 'delays are plausible' (dep_delay >= -120).",
        "checked on september:20 · 2 passed · 0 failed",
        "merge: three-way · 27574 to insert · 1 to update · 0 to delete · 1 conflict",
        "merged into main:20 · 27574 inserted · 1 updated · 0 deleted · ",
        "no changes to main:20 · ",
    ):
        assert [head for head in heads if head.startswith(said)], said


@pytest.mark.notebook
def test_that_history_opens_in_the_reference(of_history, folder):
    uri = str(folder / "year.lance")
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    hidden = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    versions = [*range(1, ours.version + 1), ("september", 19), ("september", 20)]
    for reference in versions:
        one, other = ours.checkout_version(reference), theirs.checkout_version(reference)
        columns = [*one.schema.names, *hidden]
        assert one.to_table(columns=columns) == other.to_table(columns=columns), reference
    delta = theirs.delta(compared_against=19)
    assert delta.get_inserted_rows().read_all().num_rows == 27574
    assert delta.get_updated_rows().read_all().num_rows == 1
    assert ours.count_rows("dep_delay < -120") == 0


# ---- search


@pytest.mark.notebook
def test_indices_answer(of_search):
    said = [data["text/plain"] for _, data in outputs(of_search)]
    assert "True 69\n" in said
    assert "(36776, 149)" in said
    assert "(0, 149)" in said
    assert any("Finger Lakes Regional Airport" in text for text in said)
    assert any("TVL" in text and "SLC" in text and "Reno" not in text for text in said)
    # a storm of another month is the most like the blizzard
    assert any("2013-03-08T13:00:00Z" in text for text in said)
    shares = re.findall(r"(\d+)%", "".join(said))
    assert len(shares) == 3
    assert int(shares[-1]) >= 95
    assert any("the 4 nearest of 32 partitions" in text for text in said)


@pytest.mark.notebook
def test_these_indices_are_asked_by_the_reference(of_search, folder):
    flights = lance.dataset(str(folder / "trips.lance"))
    asked = "flight = 1545 AND carrier IN ('UA', 'AA')"
    assert "ScalarIndexQuery" in flights.scanner(filter=asked).explain_plan()
    ours = lk.dataset(folder / "trips.lance").to_table(filter=asked)
    assert ours == flights.to_table(filter=asked)
    assert ours == flights.to_table(filter=asked, use_scalar_index=False)
    hours = lance.dataset(str(folder / "weather.lance"))
    nearest = {"column": "like", "q": [0.5] * 6, "k": 20, "nprobes": 4}
    assert "ANNSubIndex" in hours.scanner(nearest=nearest).explain_plan()
    found = lk.dataset(folder / "weather.lance").to_table(nearest=nearest)
    known = hours.to_table(nearest=nearest)
    assert found.drop_columns("_distance") == known.drop_columns("_distance")


# ---- small writes


@pytest.mark.notebook
def test_every_small_write_is_there_once(of_shards, folder):
    heads = [data["text/plain"].splitlines()[0] for _, data in outputs(of_shards)]
    for said in (
        "{'acknowledged': 640,",
        "4 shards · 5 generations to merge",
        "signal 9 after 30 rows; 30 are read from the log",
        "35 rows of the cellar",
        "cellar · exactly once · 6 rows put",
        "FencedError",
        "merged 6 generations into main:3 · 676 inserted · 0 updated · 0 deleted",
        "6 generations are gone, and 692 rows are there",
    ):
        assert [head for head in heads if head.startswith(said)], said
    (counts,) = (
        d["text/plain"] for _, d in outputs(of_shards) if "acknowledged':" in d["text/plain"]
    )
    assert " ".join(counts.split()).endswith("behind': 0, 'rows': 656, 'rows of version 2': 16}")
    uri = str(folder / "sensors.lance")
    theirs = lance.dataset(uri)
    assert lk.dataset(uri).to_table() == theirs.to_table()
    table = theirs.to_table().to_pandas()
    assert len(table) == len(table.drop_duplicates(["sensor", "tick"])) == 692
    assert table[table["sensor"] == 3].sort_values("tick")["celsius"][:3].tolist() == [
        18,
        -1,
        18.03,
    ]
    with theirs.mem_wal_writer(lk.dataset(uri).mem_wal_shards()[0].shard_id) as writer:
        row = table[table["sensor"] == 0][:1].assign(tick=1000)
        writer.put(pa.Table.from_pandas(row, schema=theirs.schema, preserve_index=False))
    assert lk.dataset(uri).count_rows("tick = 1000", include_mem_wal=True) == 1


# ---- every file


@pytest.mark.notebook
def test_every_kind_of_file_is_opened_and_none_is_left(of_every_file, folder):
    said = [" ".join(data["text/plain"].split()) for _, data in outputs(of_every_file)]
    for start in (
        "tour.lance · main:6 · 50,233 rows",
        "{6: '18446744073709551609.manifest', 5: '18446744073709551610.manifest',",
        "update · read version 4 changed 1 fragment added 1 fragment, 100 rows key filter",
        "Data file 2.2, 27,004 rows",
        "(521, [838, 839, 840, 841, 1777])",
        "(1, 5, ['_deletions', '_transactions', '_versions', 'data'])",
        "1 shard · 1 generation to merge",
        "([0, 10, 5], 10, 50248)",
        "(set(), [])",
        "DiffCounts(inserted=23750, deleted=521, updated=0, unchanged=26483,",
    ):
        assert [one for one in said if one.startswith(start)], start
    uri = str(folder / "tour.lance")
    assert lk.dataset(uri).to_table() == lance.dataset(uri).to_table()


# ---- branches


@pytest.mark.notebook
def test_branches_with_columns_are_merged_and_one_undo_takes_each_back(of_branches, folder):
    heads = [data["text/plain"].splitlines()[0] for _, data in outputs(of_branches)]
    for said in (
        "merge: fast-forward · 0 to insert · 0 to update · 0 to delete · 0 conflicts",
        "merged into main:2 · 0 inserted · 0 updated · 0 deleted · ",
        "merge: three-way · 0 to insert · 0 to update · 0 to delete · 0 conflicts",
        "merge: three-way · 0 to insert · 1 to update · 0 to delete · 0 conflicts",
        "merged into main:8 · 0 inserted · 1 updated · 0 deleted · ",
    ):
        assert [head for head in heads if head.startswith(said)], said
    uri = str(folder / "delays.lance")
    ours, theirs = lk.dataset(uri), lance.dataset(uri)
    for merged in (2, 5, 8):
        before, at, undone = (theirs.checkout_version(merged + step) for step in (-1, 0, 1))
        assert at.schema != before.schema == undone.schema
        assert undone.to_table() == before.to_table()
        assert at.to_table() == ours.checkout_version(merged).to_table()
    # the undone merge, done again, beside main's own changes
    assert theirs.schema == theirs.checkout_version(2).schema
    speeds = [v.to_table(columns=["mph"]) for v in (theirs, theirs.checkout_version(2))]
    assert speeds[0].sort_by("mph") == speeds[1].sort_by("mph")


# ---- write-ahead logs


@pytest.mark.notebook
def test_a_row_goes_through_the_quarantine_and_none_is_lost(of_logs, folder):
    lines = [line for _, data in outputs(of_logs) for line in data["text/plain"].splitlines()]
    said = [" ".join(line.split()) for line in lines]
    for start in (
        "signal 9, after 1438 rows were acknowledged",
        "1438 rows of February with the logs, 0 without",
        "Generation 1 of shard",
        "merged 1 generation into main:6 · 477 inserted · 0 updated · 0 deleted · ",
        "1 row in quarantine",
        "1 row put back, 0 left",
    ):
        assert [one for one in said if one.startswith(start)], start
    key = "the row with origin = 'EWR', month = 2, day = 12, hour = 3"
    assert [line for line in said if line.startswith(key)]
    theirs = lance.dataset(str(folder / "stations.lance"))
    assert theirs.to_table() == lk.dataset(folder / "stations.lance").to_table()
    assert theirs.count_rows("month = 2") == 1438
    assert theirs.count_rows("month = 2 AND wind_speed > 100") == 0

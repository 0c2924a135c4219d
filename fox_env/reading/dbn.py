"""DBN files: Databento's records, decoded by its own library, as tables of bars, trades or quotes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fox_env.bars import Float, Int
from fox_env.errors import DataError
from fox_env.reading.quotes import two_sided
from fox_env.reading.records import BARS, CLASSES, SAMPLED, SNAPSHOT, SYMBOL_MAPPING, single_type
from fox_env.reading.table import Kind, Table

if TYPE_CHECKING:
    import databento_dbn
    import polars as pl

_MAX_RECORDS = 1 << 25
"""Most records of one file: bounds the memory that a hostile or whole-market file can claim."""

_CHUNK = 1 << 20
"""Bytes that are decoded at a time: the decoder makes an object of every record."""

_MAX_FIXED = 1 << 53


def read_dbn(data: bytes, source: str) -> Table:
    """Read DBN data of version 1, 2 or 3.

    Parameters
    ----------
    data : bytes
        The whole file, unpacked.
    source : str
        Its name for error messages.

    Returns
    -------
    Table
        ``ts`` (ns UTC) and ``symbol`` (the instrument's number where the file maps it to no symbol), and

        - for ohlcv records, kind "bars": ``open``, ``high``, ``low``, ``close``, ``volume``; ``ts`` is the
          close, the record's start plus its length;
        - for bbo and cbbo records, kind "bars": the mid price as ``open``, ``high``, ``low`` and ``close``,
          and ``bid``, ``ask``, ``bid_size``, ``ask_size``; ``ts`` is the end of the sampled interval;
        - for trades, tbbo, tcbbo, mbp-1, cmbp-1 and mbp-10 records, kind "trades" or "quotes": the columns
          of :func:`fox_env.reading.events.events_of`; ``ts`` is the time of receipt, the records' order.

        Control messages of live captures are left out.

    Raises
    ------
    DataError
        The decoder is not installed; the data are cut short, damaged, empty, or of a schema that yields
        no bars.
    """
    library = _library(source)
    symbols = _Symbols()
    parts: dict[str, list[NDArray[Any]]] = {}
    counts: Counter[int] = Counter()
    for rtype, records in _decode(library, data, source, symbols):
        counts[rtype] += len(records)
        if sum(counts.values()) > _MAX_RECORDS:
            raise DataError(
                f"{source}: holds more than {_MAX_RECORDS:,} records; request a shorter period or fewer symbols."
            )
        if rtype in CLASSES:
            for name, values in _columns(rtype, records).items():
                parts.setdefault(name, []).append(values)
    rtype = single_type(counts, symbols.schema, source)
    columns = {name: np.concatenate(values) for name, values in parts.items()}
    return _table(rtype, columns, symbols, source)


def _library(source: str) -> Any:
    try:
        import databento_dbn
    except ImportError:
        raise DataError(
            f"{source}: is a DBN file, which needs Databento's decoder; pip install 'fox-futures[data]'."
        ) from None
    return databento_dbn


def _decode(library: Any, data: bytes, source: str, symbols: _Symbols) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield runs of records of one type as structured arrays, in file order within a type."""
    decoder = library.DBNDecoder()
    done = 0
    for at in range(0, len(data), _CHUNK):
        with _Decoding(library, source, done):
            records = decoder.write_and_decode(data[at : at + _CHUNK])
            if records and isinstance(records[0], library.Metadata):
                symbols.add_metadata(records.pop(0))
            runs = list(_by_type(library, records, symbols))
        done += len(records)
        yield from runs
    if decoder.buffer() or symbols.dataset is None:
        raise DataError(f"{source}: the DBN data are cut short after {done:,} records; fetch the file again.")


class _Decoding:
    """Turns what the decoder raises for damaged data into one sentence; its panics have no class to catch."""

    def __init__(self, library: Any, source: str, done: int) -> None:
        self._error, self._source, self._done = library.DBNError, source, done

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._error) or (kind is not None and kind.__name__ == "PanicException"):
            reason = str(error).splitlines()[0].rstrip(".")
            raise DataError(
                f"{self._source}: the DBN data are damaged after {self._done:,} records ({reason}); fetch the "
                "file again, or update databento-dbn if the file is newer than it."
            ) from None


def _by_type(library: Any, records: list[Any], symbols: _Symbols) -> Iterator[tuple[int, NDArray[Any]]]:
    raws = list(map(bytes, records))
    if not raws:
        return
    size, rtype = len(raws[0]), raws[0][1]
    alike = np.frombuffer(b"".join(raws), dtype=np.uint8)
    if alike.size == size * len(raws) and rtype in CLASSES:
        heads = alike.reshape(-1, size)[:, :2]  # length in words of four bytes, and type
        if (heads == (size // 4, rtype)).all():
            yield rtype, alike.view(_layout(library, rtype, size))
            return
    groups: dict[tuple[int, int], list[bytes]] = {}
    for record, raw in zip(records, raws, strict=True):
        groups.setdefault((raw[1], len(raw)), []).append(raw)
        if raw[1] == SYMBOL_MAPPING:
            symbols.add_message(record)
    for (rtype, size), parts in groups.items():
        yield rtype, np.frombuffer(b"".join(parts), dtype=_layout(library, rtype, size))


def _layout(library: Any, rtype: int, size: int) -> np.dtype[Any]:
    """Return the fields of a record of `size` bytes, which may end in the time of sending."""
    fields = [("length", "u1"), ("rtype", "u1")]
    if rtype in CLASSES:
        # The vendor's own description follows its decoder when a later version moves a field.
        fields = getattr(library, CLASSES[rtype])._dtypes
    return np.dtype([*fields, ("rest", f"V{size - np.dtype(fields).itemsize}")])


def _columns(rtype: int, records: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return the needed fields of records of one type as columns."""
    columns: dict[str, NDArray[Any]] = {"instrument": records["instrument_id"]}
    if rtype in BARS:
        columns["ts"] = records["ts_event"].astype(np.int64)
        columns |= {name: _prices(records[name]) for name in ("open", "high", "low", "close")}
        return columns | {"volume": records["volume"].astype(np.float64)}
    columns["ts"] = records["ts_recv"].astype(np.int64)
    names = records.dtype.names or ()
    if rtype not in SAMPLED:
        traded = records["action"] == b"T"
        columns["price"] = np.where(traded, _prices(records["price"]), np.nan)
        columns["size"] = np.where(traded, records["size"], 0).astype(np.float64)
        side = (records["side"] == b"B").astype(np.int8) - (records["side"] == b"A").astype(np.int8)
        columns["side"] = np.where(traded, side, 0).astype(np.int8)
    if "bid_px_00" in names:
        for quote in ("bid", "ask"):
            columns[quote] = _prices(records[f"{quote}_px_00"])
            columns[f"{quote}_size"] = records[f"{quote}_sz_00"].astype(np.float64)
            if rtype == 10:
                levels = [records[name] for name in names if name.startswith(f"{quote}_sz_")]
                columns[f"{quote}_depth"] = np.add.reduce(levels, axis=0, dtype=np.float64)
        if rtype not in SAMPLED:
            columns["reset"] = (records["flags"] & SNAPSHOT != 0) | (records["action"] == b"R")
    return columns


def _prices(fixed: Int) -> Float:
    """Return fixed-point prices of 1e-9 as the nearest float64, as parsing their decimal text gives."""
    prices = fixed / 1e9  # correctly rounded while the integer itself is exact
    for row in np.flatnonzero(np.abs(fixed) > _MAX_FIXED):
        prices[row] = int(fixed[row]) / 10**9
    prices[fixed == np.iinfo(np.int64).max] = np.nan
    return prices


def _table(rtype: int, columns: dict[str, NDArray[Any]], symbols: _Symbols, source: str) -> Table:
    import polars as pl

    ts: Int = columns.pop("ts")
    if (lost := np.flatnonzero(ts <= 0)).size:
        raise DataError(f"{source}: row {lost[0]}, column ts: the record has no time; fetch the file again.")
    instrument = columns.pop("instrument")
    names = symbols.column(instrument, ts)
    kind: Kind = "bars"
    if rtype in BARS:
        ts = ts + BARS[rtype]
    elif rtype in SAMPLED:
        middle = 0.5 * (columns["bid"] + columns["ask"])
        columns = dict.fromkeys(("open", "high", "low", "close"), middle) | columns
    else:
        kind = "quotes" if "bid" in columns else "trades"
    time = pl.Series("ts", ts).cast(pl.Datetime("ns", "UTC"))
    frame = pl.DataFrame([time, *(pl.Series(name, values) for name, values in columns.items()), names])
    table = Table(source, frame, kind=kind, notes=_rolls(instrument, names), closes=True)
    return two_sided(table) if rtype in SAMPLED else table


def _rolls(instrument: NDArray[np.uint32], names: pl.Series) -> tuple[str, ...]:
    """Say which symbols pass from one instrument to another, as continuous ones do, and how often."""
    if (instrument == instrument[0]).all():
        return ()
    codes = names.rank("dense").to_numpy()
    order = np.argsort(codes, kind="stable")
    passes = (np.diff(codes[order]) == 0) & (np.diff(instrument[order].astype(np.int64)) != 0)
    found: dict[str, list[int]] = {}
    for row in order[1:][passes].tolist():
        found.setdefault(names[row], []).append(row)
    return tuple(
        f"{name} passes to another instrument in {len(rows):,} rows, first row {rows[0]}: the price gaps there are "
        "no moves of the market"
        for name, rows in found.items()
    )


class _Symbols:
    """Names of the instruments of a file: from its metadata, and from messages of live captures."""

    def __init__(self) -> None:
        self.dataset: str | None = None
        self.schema: str | None = None
        self._names: dict[int, list[tuple[int, int, str]]] = {}

    def add_metadata(self, metadata: databento_dbn.Metadata) -> None:
        """Take the mappings, whose symbols are instrument numbers on one side, with their UTC dates."""
        self.dataset, self.schema = metadata.dataset, metadata.schema
        for key, spans in metadata.mappings.items():
            for span in spans:
                number, name = (span["symbol"], key) if span["symbol"].isdigit() else (key, span["symbol"])
                if number.isdigit():
                    days = [_day_ns(span["start_date"]), _day_ns(span["end_date"])]
                    self._names.setdefault(int(number), []).append((days[0], days[1], name))

    def add_message(self, record: Any) -> None:
        """Take the mapping of a live message; it holds for the whole capture."""
        whole = np.iinfo(np.int64)
        entry = (int(whole.min), int(whole.max), str(record.stype_out_symbol))
        known = self._names.setdefault(record.instrument_id, [])
        if entry not in known:
            known.append(entry)

    def column(self, instrument: NDArray[np.uint32], ts: Int) -> pl.Series:
        """Return the name of every row's instrument."""
        import polars as pl

        numbers, codes = np.unique(instrument, return_inverse=True)
        names = [str(number) for number in numbers]
        for code, number in enumerate(numbers):
            spans = self._names.get(int(number), [])
            if len({name for _, _, name in spans}) == 1:
                names[code] = spans[0][2]
                continue
            rows = codes == code
            for start, end, name in spans:
                codes = np.where(rows & (ts >= start) & (ts < end), len(names), codes)
                names.append(name)
        return pl.Series("symbol", names)[codes.astype(np.uint32)]


def _day_ns(day: date) -> int:
    return int(np.datetime64(day, "ns").astype(np.int64))

"""What laboratories call the columns of their sheets, in English and German, and which rows are controls.

A header is compared without its case, its brackets' contents, and the marks between its words: `Proben-ID`, `proben_id`
and `Proben ID` are the same. Only whole headers are known: `Sample date` is not a column of samples.
"""

import re
from collections.abc import Mapping, Sequence

TOP = 60  # rows of a sheet among which the header is looked for
NAMED_TEXTS = 4  # texts above a table that a note names
_MARKS = re.compile(r"[\s_\-./:]+")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def head(text: str) -> str:
    """A header as it is compared.

    Example:
        >>> head("Proben-Nr."), head("Sample_ID"), head("Sample #"), head("Count (positives)")
        ('proben nr', 'sample id', 'sample no', 'count')
    """
    plain = _MARKS.sub(" ", _BRACKETS.sub(" ", text).replace("#", " no")).strip().lower()
    return plain or _MARKS.sub(" ", text).strip().lower()


def _heads(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


SAMPLES: Mapping[str, tuple[str, ...]] = {  # of a list of samples; the first is what `Samples.write` calls the column
    "names": _heads(
        "sample, name, sample name, sample id, sampleid, samplename, id, item, barcode, sample no, sample number, "
        "sample barcode, sample code, specimen, specimen id, specimen no, tube id, tube barcode, lab id, lab no, "
        "probe, proben, proben id, probenid, probe id, proben nr, probennr, probennummer, probenname, proben name, "
        "probenbezeichnung, probenbarcode, probencode, proben code, labornummer, labornr, labor nr, labor id, "
        "röhrchen, röhrchen id, röhrchennummer"
    ),
    "plates": _heads(
        "plate, plate name, source plate, plate id, plate no, plate number, plate barcode, rack, rack id, platte, "
        "platten id, platten nr, plattennummer, plattenname, platten name, plattenbarcode, quellplatte"
    ),
    "wells": _heads(
        "well, position, source well, well position, well name, well id, pos, plate position, sample position, "
        "sample well, kavität, kavitaet, vertiefung, napf, plattenposition, probenposition, quellposition"
    ),
    "households": _heads(
        "household, family, group, household id, family id, group id, haushalt, haushalt id, haushalts id, familie, "
        "familien id, gruppe, gruppen id"
    ),
    "risks": _heads(
        "risk, rate, probability, risiko, wahrscheinlichkeit, vortestwahrscheinlichkeit, pretest probability"
    ),
}
WELLS = frozenset(SAMPLES["wells"]) | {"pool well"}
POOL = frozenset(_heads("pool, pools, pool id, pool name, pool no, poolname, pool nr, poolnummer"))
INSTANCE = frozenset(
    _heads(
        "instance, plate, run, batch, array, plate name, plate id, run id, platte, lauf, charge, ansatz, plattenname"
    )
)
COUNT = frozenset(
    _heads(
        "count, counts, reads, result, results, value, reading, measured, observed, y, positives, number of positives, "
        "positive samples, call, interpretation, anzahl, anzahl positive, anzahl positiver, zahl, zählung, zaehlung, "
        "ergebnis, ergebnisse, resultat, wert, messwert, befund, bewertung"
    )
)
CYCLES = frozenset(_heads("ct, cq, cp, ct value, cq value, ct wert, cq wert, ct mean, cq mean, ct sd, ct threshold"))
UNREAD = WELLS | frozenset(  # whatever they hold, they hold no counts
    _heads(
        "pool plate, samples, size, members, items, volume, check, pool size, pool well, proben, größe, groesse, "
        "poolgröße, poolgroesse, volumen, date, time, datum, zeit, uhrzeit, operator, bearbeiter, bearbeitet von, "
        "comment, comments, remark, remarks, note, notes, kommentar, bemerkung, bemerkungen, notiz, instrument, "
        "device, gerät, geraet, no, nr, row, column, zeile, spalte, lfd nr, sum, total, mean, summe, gesamt, "
        "mittelwert, target, dye, reporter, quencher, task, barcode, plate barcode, signature, unterschrift"
    )
)
CYCLE = frozenset(  # of the wells of a PCR machine, as `machine_head` gives them; means and deviations are not here
    _heads(
        "ct, cq, cp, ct value, cq value, cp value, ct wert, cq wert, cp wert, c t, c q, c p, crossing point, "
        "crossing cycle, threshold cycle, cycle threshold, quantification cycle, quantitation cycle, "
        "schwellenwertzyklus"
    )
)
AMOUNT = frozenset(
    _heads(
        "quantity, qty, copies, copy number, copies per reaction, concentration, conc, starting quantity, "
        "amount, copies µl, copies ul, copies ml, menge, kopien, kopienzahl, konzentration"
    )
)
TARGETS = (  # what a well's value is the value of: the first that tells rows apart is the file's
    *_heads("target, target name, targetname, detector, detector name, assay, assay name, gene, gene name, zielgen"),
    *_heads("fluor, fluorophore, channel, dye, reporter, kanal, farbstoff"),
)
TASKS = frozenset(_heads("task, content, type, sample type, well type, role, probentyp, inhalt"))
RUNS = INSTANCE | frozenset(_heads("run name, experiment, experiment name, plate barcode, plattenbarcode"))
TUBES = frozenset(_heads("no, tube, tube no, tube position, well no"))  # of a rotor, which has no wells
_LETTERS = str.maketrans({"\u0442": "t", "\u03c4": "t", "\u0441": "c"})  # Cyrillic te and es, Greek tau
_CROSSING = re.compile(r"\bc\s*\(\s*([tqp])\s*\)", re.IGNORECASE)


def machine_head(text: str) -> str:
    """A header of a PCR machine's file as it is compared: `C(t)`, and `Ct` with a Cyrillic letter, are ct.

    Example:
        >>> machine_head("C\\u0442"), machine_head("C(t)"), machine_head("Ct (dRn)"), machine_head("C\\u0442 Mean")
        ('ct', 'ct', 'ct', 'ct mean')
    """
    return head(_CROSSING.sub(r"c\1", text.lower().translate(_LETTERS)))


_STANDARD = re.compile(r"(std|stnd|standard|calibrator|kalibrator|nrt|nac|ipc|ladder|neg|pos|negative|positive)[ ]?\d*")
_CONTROL = re.compile(
    r"(ntc|ptc|nec|nc|pc|ec|npc|nk|pk|ntk|blank|water|leerwert|leerkontrolle|wasser"
    r"|(no template|negative|positive|extraction|internal) control|(negativ|positiv|extraktions|leer)kontrolle"
    r"|(neg|pos)[ ]?(control|kontrolle|ctrl))[ ]?\d*"
)


def is_control(name: str) -> bool:
    """Whether a row's name is that of a control, which is not a pool.

    Example:
        >>> is_control("NTC"), is_control("Pos.-Kontrolle 2"), is_control("P1")
        (True, True, False)
    """
    return _CONTROL.fullmatch(head(name)) is not None


def is_standard(name: str) -> bool:
    """Whether a well is a control or a standard, by its name or by its task.

    Example:
        >>> is_standard("STANDARD"), is_standard("Std-02"), is_standard("NTC-1"), is_standard("Unkn-01")
        (True, True, True, False)
    """
    return is_control(name) or _STANDARD.fullmatch(head(name)) is not None


def columns_said(names: Sequence[str]) -> str:
    """A sentence on columns that were left out.

    Example:
        >>> columns_said(["Datum"]), columns_said(["Datum", "Alter"])
        ("Not read: column 'Datum'.", "Not read: columns 'Datum', 'Alter'.")
    """
    return f"Not read: column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}."


def rows_said(header: int, above: Sequence[str], what: str = "header") -> str:
    """A sentence on what stands above a table, and on its first row, counted from 0.

    Example:
        >>> rows_said(2, ["Screening KW 46", "Ann"])
        "Row 3 was taken as the header; not read above it: 'Screening KW 46', 'Ann'."
    """
    return f"Row {header + 1} was taken as the {what}; not read above it: {', '.join(map(repr, above))}."

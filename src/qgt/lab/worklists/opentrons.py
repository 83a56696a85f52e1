"""Opentrons Flex and OT-2: a CSV file for a run-time parameter, and the protocol that reads it.

The protocol is the same text for every design but for its title: people can read what it does before they run it. It
asks for the CSV file when a run is set up (API level 2.20).
"""

import json

from qgt.lab.worklists.moves import Moves, csv_text

HEADER = ("source_plate", "source_well", "destination_plate", "destination_well", "volume")
LABWARE = {96: "nest_96_wellplate_200ul_flat", 384: "corning_384_wellplate_112ul_flat"}
PROTOCOL = '''"""Pool samples: every line of the CSV file is one transfer, with a new tip."""

metadata = {"protocolName": TITLE}
requirements = {"robotType": "OT-2", "apiLevel": "2.20"}
LABWARE = PLATES  # what each plate is
SLOTS = ["1", "2", "3", "4", "5", "6"]
TIPS = ["7", "8", "9", "10"]


def add_parameters(parameters):
    parameters.add_csv_file(variable_name="transfers", display_name="Transfers", description="opentrons.csv")


def run(protocol):
    rows = protocol.params.transfers.parse_as_csv()
    if len(LABWARE) > len(SLOTS):
        raise RuntimeError("There are more plates than slots: run fewer plates at a time.")
    plates = {
        name: protocol.load_labware(kind, slot, label=name)
        for (name, kind), slot in zip(LABWARE.items(), SLOTS)
    }
    racks = [protocol.load_labware("opentrons_96_tiprack_20ul", slot) for slot in TIPS]
    pipette = protocol.load_instrument("p20_single_gen2", "left", tip_racks=racks)
    used = 0
    for source_plate, source_well, destination_plate, destination_well, volume in rows[1:]:
        if used and used % (96 * len(TIPS)) == 0:
            protocol.pause("Put in new tip racks.")
            pipette.reset_tipracks()
        used += 1
        pipette.transfer(
            float(volume),
            plates[source_plate][source_well],
            plates[destination_plate][destination_well],
            new_tip="always",
        )
'''


def files(made: Moves) -> dict[str, str]:
    """The CSV file and the protocol."""
    kinds = {made.labels[plate]: LABWARE[made.sizes[plate]] for plate in [*made.sources, *made.targets]}
    protocol = PROTOCOL.replace("TITLE", json.dumps(made.design)).replace("PLATES", json.dumps(kinds, indent=4))
    return {"opentrons.csv": csv_text(HEADER, made.rows), "opentrons.py": protocol}

"""The invented names of a world: a fixed stock, so that a model that has seen the stock can read every world."""

from __future__ import annotations

from itertools import product

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
YEARS = range(1650, 2001)
"""The years of all events."""


def _joined(heads: str, tails: str) -> tuple[str, ...]:
    """Every head with every tail; neighbours in the list share neither."""
    pairs = list(product(heads.split(), tails.split()))
    return tuple(head + tail for head, tail in sorted(pairs, key=lambda pair: (_mixing_key(*pair), pair)))


def _mixing_key(*words: str) -> int:
    """A number that depends on some words alone, by which names are mixed."""
    number = 7
    for letter in " ".join(words):
        number = (number * 131 + ord(letter)) % 1_000_003
    return number


FEMALE = _joined("Al Be Ca Da El Hel Jo Mar", "ana etta ina issa ora")
MALE = _joined("Al Ber Cor Dar Ed Hal Jor Kel", "bert gar mund ric win")
SURNAMES = _joined("Ash Bran Cald Dun Elm Fair Hol Kirk Lang North", "berg croft ford gate ley man")
TOWNS = _joined("Arn Bel Cor Dres Esk Fal Gor Hul Is Jar Kal Lom", "aby borg dale fell haven holm more nes rid stow "
                "thorpe vik")  # fmt: skip
REGIONS = _joined("Ard Bost Cim Dolv Ern Garv Lith", "avia enia land maria or")
TITLE_ENDS = (
    "Bridge", "Candle", "Castle", "Clock", "Crown", "Door", "Feather", "Forest", "Garden", "Harbour", "Island",
    "Journey", "Lamp", "Letter", "Meadow", "Mirror", "Mountain", "Orchard", "Promise", "River", "Road", "Secret",
    "Shadow", "Ship", "Song", "Station", "Storm", "Summer", "Tower", "Winter",
)  # fmt: skip
TITLE_STARTS = (
    "Amber", "Bitter", "Broken", "Burning", "Distant", "Empty", "Endless", "Faithful", "Fallen", "Final",
    "Forgotten", "Frozen", "Golden", "Hidden", "Hollow", "Last", "Lonely", "Lost", "Narrow", "Open", "Pale",
    "Quiet", "Red", "Secondhand", "Silent", "Silver", "Sleeping", "Stolen", "Unknown", "White",
)  # fmt: skip
OCCUPATIONS = {
    "painter": ("court painter", "portrait painter", "mural painter"),
    "teacher": ("piano teacher", "village teacher", "dance teacher"),
    "engineer": ("railway engineer", "mining engineer", "bridge engineer"),
    "doctor": ("ship doctor", "army doctor", "prison doctor"),
    "writer": ("travel writer", "crime writer", "nature writer"),
    "judge": ("county judge", "tax judge", "harbour judge"),
}
"""The fine classes of each coarse one."""
_PLAIN_WORDS = (
    "#### \n , . : ? Answer Claim Claims Done Evidence Follow He In Intermediate Is It Next None Question Reasoning "
    "She Text The Verdict Were What When Where Which Who Whom a and answer before birthplace born by came capital "
    "child children come composed composer did die died directed director enough father film first founded governed "
    "governor had has in is last later lies married marry mother no not novel occupation of on or out query refuted "
    "region same song spouse supported that the too town up was which who writer written wrote yes"
)
WORDS = tuple(dict.fromkeys((
    *_PLAIN_WORDS.split(" "), *FEMALE, *MALE, *SURNAMES, *TOWNS, *REGIONS, *TITLE_STARTS, *TITLE_ENDS, *MONTHS,
    *(str(year) for year in YEARS), *(str(day) for day in range(1, 32)), *OCCUPATIONS,
    *(word for fine in OCCUPATIONS.values() for name in fine for word in name.split()),
)))  # fmt: skip
"""Every word of passages, questions and chains, marks and line breaks among them."""

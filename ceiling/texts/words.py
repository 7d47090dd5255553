"""Words that generated facts are made of: plain ones for things, invented ones for people and places."""

ADJECTIVES = (
    "amber", "ancient", "brass", "broken", "crimson", "distant", "eastern", "frozen", "gentle", "golden",
    "hollow", "ivory", "lonely", "marble", "narrow", "northern", "painted", "quiet", "rusty", "scarlet",
    "silver", "slender", "southern", "sunken", "velvet", "western", "wooden", "yellow",
)  # fmt: skip

PLACES = (
    "archive", "bakery", "barn", "cellar", "chapel", "cottage", "depot", "ferry", "foundry", "garage",
    "granary", "harbour", "kiosk", "laboratory", "library", "lighthouse", "mill", "museum", "observatory",
    "orchard", "pavilion", "quarry", "shipyard", "stable", "theatre", "tower", "vault", "workshop",
)  # fmt: skip

GIVEN_NAMES = (
    "Adela", "Bruno", "Celia", "Dorian", "Edda", "Felix", "Greta", "Hugo", "Ilse", "Jonas", "Karin", "Lorenz",
    "Mira", "Nils", "Olga", "Pavel", "Rosa", "Selma", "Tobias", "Ursula", "Viktor", "Wanda",
)  # fmt: skip

FAMILY_NAMES = (
    "Alder", "Birk", "Calloway", "Dunmore", "Ekdal", "Farrow", "Gallen", "Hartig", "Inverley", "Jessop",
    "Kolter", "Lindqvist", "Marlow", "Norrey", "Oberlin", "Penrose", "Quayle", "Rosling", "Sandoval",
    "Tarrant", "Underhill", "Vance", "Whitlock", "Yarrow",
)  # fmt: skip

TRADES = (
    "baker", "bookbinder", "carpenter", "clockmaker", "cobbler", "dentist", "gardener", "glassblower",
    "locksmith", "miller", "nurse", "painter", "pharmacist", "potter", "surveyor", "tailor", "teacher",
    "weaver",
)  # fmt: skip

TOWN_STARTS = ("Ash", "Barn", "Cald", "Den", "Elm", "Fern", "Har", "Kel", "Lang", "Mal", "Nor", "Sten", "Wex")
TOWN_ENDS = ("bury", "dale", "field", "ford", "ham", "holm", "mouth", "stead", "thorpe", "wick", "worth")
RIVER_STARTS = ("Al", "Bre", "Cor", "Dov", "El", "Fal", "Gar", "Hin", "Lor", "Mer", "Or", "Tav", "Vel", "Yar")
RIVER_ENDS = ("an", "del", "en", "ina", "ka", "lay", "mar", "os", "rin", "sk", "tone", "une", "vy")
"""Syllables: no model can know these places."""

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Of the names of variables: consonants, so that no word comes out."""

MORE_ADJECTIVES = (
    "azure", "bitter", "bright", "bronze", "careful", "cheerful", "clever", "coastal", "copper", "crooked",
    "dusty", "elegant", "faded", "famous", "fragile", "friendly", "generous", "grand", "granite", "hidden",
    "humble", "idle", "jolly", "little", "lofty", "lunar", "mellow", "modest", "mossy", "noble", "olive",
    "patient", "polished", "proud", "purple", "royal", "rural", "sandy", "shady", "sleepy", "solemn", "steep",
    "stormy", "sturdy", "tidy", "tranquil", "upper", "vast", "violet", "windy",
)  # fmt: skip

MORE_PLACES = (
    "abbey", "academy", "arcade", "arena", "armoury", "ballroom", "barracks", "brewery", "bungalow", "cabin",
    "canteen", "castle", "cinema", "clinic", "college", "courthouse", "dairy", "factory", "farmhouse",
    "fortress", "gallery", "greenhouse", "hangar", "hospital", "hostel", "inn", "kennel", "lodge", "manor",
    "market", "monastery", "nursery", "palace", "pharmacy", "prison", "rectory", "refinery", "school", "shed",
    "silo", "stadium", "station", "studio", "tavern", "temple", "terminal", "villa", "warehouse", "winery",
)  # fmt: skip
"""Where many places are needed: with the first ones, 28 and so many of each."""

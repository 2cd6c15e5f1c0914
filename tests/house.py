"""The size and shape of the four packages: `python -m tests.house` prints them beside their limits, and where to look.

`__init__.py` files and `thinkback/commands` are aside. A public name is a function or class at top level
without an underscore; a chain is counted in imports, inside one folder.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("toolkit", "generate", "replay", "thinkback")
COMMANDS = "thinkback.commands"
LIMITS = {
    "lines": 103_730, "modules": 475, "modules with one importer": 111, "files in a folder": 20,
    "imports in a chain": 9, "public names": 2_218,
}  # fmt: skip
"""Lowered, never raised, unless the commit gives the reason."""
parsed = cache(ast.parse)
"""The syntax tree of a text, which nobody changes: seven tests walk those of all files, and parsing takes longest."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class House:
    """Every module by its dotted name, with its source."""

    sources: dict[str, str]
    inits: frozenset[str]

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Syntax trees by module."""
        return {name: parsed(text) for name, text in self.sources.items()}

    @cached_property
    def modules(self) -> list[str]:
        """The modules that count."""
        return [name for name in self.sources if name not in self.inits and not name.startswith(COMMANDS)]

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """Module -> the modules of ours that it imports."""
        named: dict[str, set[str]] = {}
        for module, tree in self.trees.items():
            names: set[str] = set()
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module:
                    inner = {f"{node.module}.{one.name}" for one in node.names}
                    names |= {node.module} | inner
                elif isinstance(node, ast.Import):
                    names |= {one.name for one in node.names}
            named[module] = {name for name in names if name in self.sources and name != module}
        return named

    @cached_property
    def single(self) -> dict[str, str]:
        """Module -> the only module that imports it."""
        importers: dict[str, set[str]] = defaultdict(set)
        for module, names in self.imports.items():
            for name in names:
                importers[name].add(module)
        return {name: next(iter(importers[name])) for name in self.modules if len(importers[name]) == 1}

    @cached_property
    def folders(self) -> dict[str, list[str]]:
        """Folder -> its modules."""
        rooms: dict[str, list[str]] = defaultdict(list)
        for name in self.modules:
            rooms[name.rpartition(".")[0]].append(name)
        return rooms

    @cached_property
    def longest_chain(self) -> list[str]:
        """The longest chain of imports inside one folder."""
        known: dict[str, list[str]] = {}

        def chain(module: str) -> list[str]:
            if module not in known:
                folder = module.rpartition(".")[0]
                inner = [name for name in self.imports[module] if name in self.folders[folder]]
                known[module] = [module, *max((chain(name) for name in sorted(inner)), key=len, default=[])]
            return known[module]

        return max((chain(module) for module in self.modules), key=len)

    @cached_property
    def public(self) -> Counter[str]:
        """Module -> how many public names it has."""
        return Counter(
            module
            for module in self.modules
            for node in self.trees[module].body
            if isinstance(node, DEFINITIONS) and not node.name.startswith("_")
        )

    def counts(self) -> dict[str, int]:
        """What `LIMITS` limits."""
        return {
            "lines": sum(self.sources[name].count("\n") for name in self.modules),
            "modules": len(self.modules),
            "modules with one importer": len(self.single),
            "files in a folder": max(map(len, self.folders.values())),
            "imports in a chain": len(self.longest_chain) - 1,
            "public names": self.public.total(),
        }


def house(root: Path = ROOT) -> House:
    """The packages below a folder."""
    paths = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    names = {path: ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in paths}
    inits = frozenset(name for path, name in names.items() if path.name == "__init__.py")
    return House({name: path.read_text(encoding="utf-8") for path, name in names.items()}, inits)


def main() -> None:
    """Print the counts, and the places that would lower them."""
    ours = house()
    for name, count in ours.counts().items():
        print(f"{name:<28}{count:>8,} of {LIMITS[name]:,}{'' if count <= LIMITS[name] else '  too many'}")
    lines = {name: text.count("\n") for name, text in ours.sources.items()}
    print(f"\nlines with what is aside: {sum(lines.values()):,}")
    print("modules with one importer, smallest first:")
    for name in sorted(ours.single, key=lines.__getitem__)[:12]:
        print(f"  {lines[name]:>4}  {name} <- {ours.single[name]}")
    print("largest folders:")
    for folder, names in sorted(ours.folders.items(), key=lambda pair: -len(pair[1]))[:5]:
        print(f"  {len(names):>4}  {folder}")
    print("longest chain: " + " -> ".join(name.rpartition(".")[2] for name in ours.longest_chain))
    print("most public names: " + ", ".join(f"{name} {count}" for name, count in ours.public.most_common(8)))


if __name__ == "__main__":
    main()

"""Text to ids and back, by the tokenizer that a pretrained model comes with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from llm.probe._libraries import library, quiet

FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
"""Any of them is what `transformers` makes a tokenizer of."""


@final
class Words:
    """The tokenizer of a model's folder.

    missing: why there is none, a sentence; None where there is one. first: the id that it puts before a text
    itself, None for none.
    """

    def __init__(self, folder: Path) -> None:
        self.missing: str | None = None
        self.first: int | None = None
        if not any((folder / name).is_file() for name in FILES):
            self.missing = f"{folder} has no tokenizer: put the model's {FILES[0]} there"
            return
        try:
            with quiet():
                self._tokenizer = library("transformers").AutoTokenizer.from_pretrained(
                    str(folder), local_files_only=True, trust_remote_code=False
                )
        except Exception as error:  # of many kinds
            said = " ".join(str(error).split())[:200]
            self.missing = f"the tokenizer of {folder} cannot be read ({said}): download it again"
            return
        plain, whole = self.encode("a"), self._tokenizer.encode("a")
        if len(whole) > len(plain) and whole[0] != plain[0]:
            self.first = int(whole[0])

    def encode(self, text: str) -> list[int]:
        """No special ids, even where the text spells one out. Raises ValueError if there is no tokenizer."""
        given = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return [int(id) for id in self._known().encode(text, **given)]

    def decode(self, ids: Sequence[int]) -> str:
        """Special ids are left out. Raises ValueError if there is no tokenizer."""
        given = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self._known().decode([int(id) for id in ids], **given))

    def _known(self) -> Any:
        if self.missing is not None:
            raise ValueError(self.missing)
        return self._tokenizer

"""C2SP signed notes: a text with Ed25519 signatures that other programs can check, too.

The format is that of https://c2sp.org/signed-note: the text, an empty line, and one line per
signature, `— NAME BASE64`, where the base64 has the four bytes of the key's hash and the signature.
A public key is written as `NAME+HASH+BASE64`, a private one with `PRIVATE+KEY+` before that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field

from .errors import TrialError

ED25519 = b"\x01"  # the kind of key and signature
MAX_KEY_NAME = 100
_PRIVATE = "PRIVATE+KEY+"
_DASH = "— "
_HASH_BYTES, _KEY_BYTES = 4, 32


class BadSignature(TrialError):
    """A note that has the key's signature of another text."""


class NotSigned(TrialError):
    """A note without a signature of the key."""


@dataclass(frozen=True)
class PublicKey:
    """A key that checks signatures."""

    name: str
    data: bytes

    @property
    def hash(self) -> bytes:
        """The four bytes by which signatures name the key."""
        whole = hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.data).digest()
        return whole[:_HASH_BYTES]

    @property
    def text(self) -> str:
        """The key as it is written: NAME+HASH+BASE64."""
        return f"{self.name}+{self.hash.hex()}+{_encoded(ED25519 + self.data)}"

    @classmethod
    def read(cls, text: str) -> PublicKey:
        """The key of a text; `TrialError` if it is none."""
        name, hash_, data = _parts(text.strip(), "public key")
        key = cls(name, data)
        if key.hash.hex() != hash_:
            raise TrialError("public key: its hash is not that of its name and its data")
        return key

    def check(self, note: str) -> str:
        """The text of a note that this key has signed."""
        text, signatures = _split(note)
        mine = [
            data[_HASH_BYTES:]
            for name, data in signatures
            if (name, data[:_HASH_BYTES]) == (self.name, self.hash)
        ]
        if not mine:
            names = ", ".join(sorted({name for name, _ in signatures}))
            raise NotSigned(f"note: has no signature of this key ({self.name}); signed by {names}")
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.data).verify(mine[0], text.encode())
        except (InvalidSignature, ValueError):
            raise BadSignature(
                f"note: the signature of {self.name} is not of this text: it was changed"
            ) from None
        return text


@dataclass(frozen=True)
class PrivateKey:
    """A key that signs."""

    name: str
    seed: bytes = field(repr=False)

    @classmethod
    def new(cls, name: str) -> PrivateKey:
        """A random key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(_key_name(name), Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> PublicKey:
        """The key that checks what this one signs."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(self.seed)
        return PublicKey(self.name, private.public_key().public_bytes_raw())

    @property
    def text(self) -> str:
        """The key as it is written into a file."""
        return f"{_PRIVATE}{self.name}+{self.public.hash.hex()}+{_encoded(ED25519 + self.seed)}"

    @classmethod
    def read(cls, text: str) -> PrivateKey:
        """The key of a text; `TrialError` if it is none. The text is not repeated."""
        if not text.startswith(_PRIVATE):
            raise TrialError("private key: not a key that 'deco keys new' made")
        name, hash_, seed = _parts(text.strip().removeprefix(_PRIVATE), "private key")
        key = cls(name, seed)
        if key.public.hash.hex() != hash_:
            raise TrialError("private key: its hash is not that of its name and its data")
        return key

    def sign(self, text: str) -> str:
        """The note of a text whose lines all end."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signature = Ed25519PrivateKey.from_private_bytes(self.seed).sign(text.encode())
        return f"{text}\n{_DASH}{self.name} {_encoded(self.public.hash + signature)}\n"


def text_of(note: str) -> str:
    """The text of a note; its signatures are not checked."""
    return _split(note)[0]


def _split(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """The text, and name and data of every signature."""
    text, gap, lines = note.rpartition("\n\n")
    if not gap or not lines.endswith("\n") or any(ord(sign) < 32 and sign != "\n" for sign in note):
        raise TrialError("note: not a signed note: a text, an empty line, and signatures")
    signatures = []
    for line in lines.removesuffix("\n").split("\n"):
        name, _, data = line.removeprefix(_DASH).partition(" ")
        decoded = _decoded(data)
        # signatures of other kinds, which are not checked here, have other lengths
        whole = len(decoded) > _HASH_BYTES
        if not line.startswith(_DASH) or not _is_key_name(name) or not whole:
            raise TrialError("note: a line of its signatures is malformed")
        signatures.append((name, decoded))
    return text + "\n", signatures


def _parts(text: str, what: str) -> tuple[str, str, bytes]:
    """Name, hash and data of a key."""
    parts = text.split("+", 2)  # base64 may have a plus, too
    if len(parts) != 3 or not _is_key_name(parts[0]):
        raise TrialError(f"{what}: must be NAME+HASH+BASE64, as 'deco keys new' prints it")
    data = _decoded(parts[2])
    if data[:1] != ED25519 or len(data) != 1 + _KEY_BYTES:
        raise TrialError(f"{what}: is not an Ed25519 key")
    return parts[0], parts[1], data[1:]


def _is_key_name(name: str) -> bool:
    plain = bool(name) and name.isprintable() and "+" not in name
    return plain and not any(sign.isspace() for sign in name)


def _key_name(name: str) -> str:
    if not _is_key_name(name) or len(name) > MAX_KEY_NAME:
        raise TrialError(
            f"name of a key: {name[:MAX_KEY_NAME]!r}; must be 1 to {MAX_KEY_NAME} printable "
            "characters without blanks or plus signs"
        )
    return name


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""

"""Stage 1 of the bootstrap: sent as one line, run by whatever Python the host has.

Its syntax is valid for Python 3.6, so that an old Python is refused with a marker rather than a SyntaxError.
It takes the bundle from its cache or from stdin, checks it, and hands over to the agent.
"""

import errno
import hashlib
import os
import shutil
import stat
import sys
import zlib

ROLL_CAP = 256 << 20
FULL = (errno.ENOSPC, errno.EDQUOT)


class Unusable(Exception):
    """A folder that cannot hold the state; `full` when only for want of space."""

    def __init__(self, path: str, why: str, full: bool = False) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.full = full


def candidates(state: "str | None") -> "list[str]":
    """Where the state may live, best first. A folder the operator named has no substitute."""
    if state:
        return [os.path.abspath(os.path.expanduser(state))]
    bases = [os.environ.get("XDG_STATE_HOME"), os.path.expanduser("~/.local/state")]
    found = [os.path.join(base, "eyas") for base in bases if base and os.path.isabs(base)]
    found.append(f"/var/tmp/eyas-{os.getuid()}")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [*found, os.path.join(runtime, "eyas")] if runtime else found


def prepare(path: str) -> None:
    """Make `path` our own folder. Raises Unusable."""
    try:
        os.makedirs(os.path.join(path, "bundles"), 0o700, exist_ok=True)
        for folder in (path, os.path.join(path, "bundles")):
            facts = os.stat(folder)
            if facts.st_uid != os.getuid() or os.lstat(folder).st_uid != os.getuid():
                raise Unusable(folder, "belongs to another user")
            if facts.st_mode & 0o022:
                raise Unusable(folder, "others may write to it (chmod go-w)")
        above = os.stat(os.path.dirname(path)).st_mode
        if above & 0o002 and not above & stat.S_ISVTX:
            raise Unusable(path, "its parent is writable by everybody")
        if not os.access(os.path.join(path, "bundles"), os.W_OK | os.X_OK):
            raise Unusable(path, "not writable")
    except OSError as error:
        raise Unusable(path, str(error.strerror), error.errno in FULL) from None


def files_below(folder: str) -> "list[tuple[bytes, str]]":
    """(path in the roll, path on disk) of every file of a bundle. Raises OSError for what is not ours alone."""
    found = []
    for base, dirs, names in os.walk(folder):
        dirs[:] = [d for d in dirs if d != "__pycache__"]
        for name in dirs + names:
            facts = os.lstat(os.path.join(base, name))
            if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
                raise OSError(errno.EPERM, "not ours alone", name)
        for name in names:
            path = os.path.join(base, name)
            found.append((os.fsencode(os.path.relpath(path, folder)), path))
    return sorted(found)


def digest_of(folder: str) -> str:
    """sha256 of the roll that the files of `folder` make; '' when it is not to be trusted."""
    digest = hashlib.sha256()
    try:
        facts = os.lstat(folder)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
            return ""
        for name, path in files_below(folder):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            with open(fd, "rb") as source:
                content = source.read()
            digest.update(b"%s\0%d\n" % (name, len(content)) + content)
    except OSError:
        return ""
    return digest.hexdigest()


def unpack(roll: bytes, folder: str) -> None:
    """Write the files of `roll` below `folder`, which must not exist. Raises OSError, ValueError."""
    os.mkdir(folder, 0o700)
    at = 0
    while at < len(roll):
        end = roll.index(b"\n", at)
        name, size = roll[at:end].split(b"\0")
        parts = os.fsdecode(name).split("/")
        if not all(part not in ("", ".", "..") for part in parts):
            raise ValueError(f"path {name!r} in the bundle")
        path = os.path.join(folder, *parts)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as target:
            target.write(roll[end + 1 : end + 1 + int(size)])
        at = end + 1 + int(size)


def install(roll: bytes, state: str, digest: str) -> None:
    """Put the roll at its place in one rename. Raises Unusable."""
    place = os.path.join(state, "bundles", digest)
    fresh = os.path.join(state, "bundles", f".{digest}.{os.getpid()}.tmp")
    stale = fresh + ".stale"
    try:
        unpack(roll, fresh)
        try:
            os.rename(fresh, place)
        except OSError:
            # Either another agent was faster, or a folder that failed its check is in the way.
            if digest_of(place) != digest:
                os.rename(place, stale)
                os.rename(fresh, place)
    except OSError as error:
        raise Unusable(state, str(error.strerror), error.errno in FULL) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(stale, ignore_errors=True)


def receive(digest: str) -> "bytes | None":
    """Read the length, then the compressed roll. None when its sha256 is another."""
    line = sys.stdin.buffer.readline(32)
    if not line.strip().isdigit():
        os._exit(4)
    packed = sys.stdin.buffer.read(int(line))
    if len(packed) < int(line):
        os._exit(4)  # the console went away in the middle
    try:
        roll = zlib.decompressobj().decompress(packed, ROLL_CAP)
    except zlib.error:
        return None
    return roll if hashlib.sha256(roll).hexdigest() == digest else None


def boot(nonce: str, digest: str, state: "str | None") -> None:
    """Speak the markers on stdout, then become the agent; stray prints go to stderr from the first line on."""
    out = os.dup(1)
    os.dup2(2, 1)

    def mark(text: str) -> None:
        os.write(out, f"\n{nonce} {text}\n".encode("utf-8", "replace"))

    if sys.version_info < (3, 10):  # noqa: UP036
        mark(f"ERR python {sys.version_info[0]}.{sys.version_info[1]}")
        os._exit(3)
    os.umask(0o077)
    usable = []
    refused = []
    for path in candidates(state):
        try:
            prepare(path)
            usable.append(path)
        except Unusable as error:
            refused.append(error)
    home = usable[0] if usable else ""
    if home and digest_of(os.path.join(home, "bundles", digest)) == digest:
        mark("HAVE")
    elif usable:
        mark("NEED")
        roll = receive(digest)
        if roll is None:
            mark("BADSHA")
            os._exit(5)
        home = ""
        for path in usable:
            try:
                install(roll, path, digest)
                home = path
                break
            except Unusable as error:
                refused.append(error)
    if not home:
        full = [error for error in refused if error.full]
        mark(("ERR nospace " + full[0].path) if full else ("ERR state " + str(refused[0])))
        os._exit(6)
    mark("RUN")
    source = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, os.path.join(home, "bundles", digest))
    from remote.agent.server import main

    main(home, source, out)

"""What can go wrong between the workstation and a host's agent: one sentence, the remedy, and whether to try again."""

from __future__ import annotations


class LinkError(Exception):
    """No link, or no longer one. `retry` says whether trying again by itself can help.

    Never True where a retry would need the operator (host key, authentication) or could lock him out.
    """

    kind = "link"
    retry = False

    def __init__(self, message: str, remedy: str = "", *, retry: bool | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if retry is not None:
            self.retry = retry


class BadHost(LinkError):
    """The profile or the ssh configuration names something that cannot be used."""

    kind = "bad_host"


class UnknownName(LinkError):
    """The name resolves to no address. Final until a first connection; after that the network is what is gone."""

    kind = "unknown_name"


class Unreachable(LinkError):
    """Nothing answers, or what answers is no SSH server (yet)."""

    kind = "unreachable"
    retry = True


class HostKeyRefused(LinkError):
    """The host's key is changed, revoked, not the expected one, or was not accepted."""

    kind = "host_key"


class AuthenticationFailed(LinkError):
    """The host did not let us in. Never tried again unasked: servers punish that."""

    kind = "authentication"


class BootstrapFailed(LinkError):
    """The command ran, but no agent came of it."""

    kind = "bootstrap"


class NoPython(BootstrapFailed):
    kind = "no_python"


class OldPython(BootstrapFailed):
    kind = "old_python"


class BundleRefused(BootstrapFailed):
    """What arrived on the host is not what was sent."""

    kind = "bundle"


class NoSpace(BootstrapFailed):
    kind = "no_space"


class BootstrapTimeout(BootstrapFailed):
    kind = "bootstrap_timeout"
    retry = True


class VersionRefused(BootstrapFailed):
    """Console and agent have no protocol version in common."""

    kind = "version"


class LinkLost(LinkError):
    """An established link ended."""

    kind = "lost"
    retry = True


class NotConnected(LinkError):
    """Asked for something while there is no link."""

    kind = "not_connected"
    retry = True


class NoAnswer(LinkError):
    """The link stands, but a request was not answered in time. It may have been carried out."""

    kind = "no_answer"

"""Getting in: the transport's own authentication calls, one method after the other, as the server allows them.

Never SSHClient's guesswork: that calls input() on a partial success, and tries again by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paramiko import AuthenticationException, BadAuthenticationType, SSHException  # type: ignore[import-untyped]

from remote.link.asker import Asker, Question
from remote.link.errors import AuthenticationFailed, LinkError, Unreachable
from remote.link.hosts import HostAddress
from remote.link.keys import Credentials, candidates, load
from remote.link.transport import ClientTransport

MAX_KEYS = 5
"""Servers close the connection at the sixth failure; leave room for one other method."""
ANSWER_TRIES = 3
"""Wrong passwords or codes, each typed by the operator, before giving up."""
ANSWER_SECONDS = 300.0
"""How long the operator may take over one question."""

_METHODS = ("publickey", "keyboard-interactive", "password")


def authenticate(transport: ClientTransport, address: HostAddress, asker: Asker, credentials: Credentials) -> None:
    """Authenticate or raise AuthenticationFailed (final) or Unreachable (the connection went away meanwhile)."""
    transport.auth_timeout = ANSWER_SECONDS
    attempt = _Attempt(transport, address, asker, credentials)
    try:
        attempt.run()
    except LinkError:
        raise
    except (SSHException, EOFError, OSError) as error:
        refused = isinstance(error, AuthenticationException) and transport.is_active()
        if refused and "timeout" not in str(error).lower():
            raise attempt.failed(str(error)) from None
        if "too many authentication failures" in transport.goodbye.lower():
            raise attempt.failed("too many attempts for this server") from None
        raise Unreachable(
            f"{address} closed the connection during authentication: {transport.goodbye or error or 'end of stream'}",
            "if it persists, look into the server's log; it may refuse this address for a while",
        ) from None


@dataclass
class _Attempt:
    transport: ClientTransport
    address: HostAddress
    asker: Asker
    credentials: Credentials
    tried: list[str] = field(default_factory=list)
    """What was offered, in words."""
    skipped: list[str] = field(default_factory=list)

    def run(self) -> None:
        allowed = self._allowed()
        done: set[str] = set()
        while not self.transport.is_authenticated():
            method = next((m for m in _METHODS if m in allowed and m not in done), None)
            if method is None:
                raise self.failed(f"it wants {', '.join(allowed) or 'nothing that it names'}")
            done.add(method)
            left = {
                "publickey": self._keys,
                "keyboard-interactive": self._interactive,
                "password": self._password,
            }[method]()
            if left is not None:  # a partial success: the server says what it still wants
                allowed = left

    def failed(self, why: str) -> AuthenticationFailed:
        offered = "; ".join(self.tried + self.skipped) or "nothing to offer"
        return AuthenticationFailed(
            f"{self.address} does not let us in: {why} (offered: {offered})",
            "try it by hand: ssh "
            + (f"-p {self.address.port} " if self.address.port != 22 else "")
            # the alias may hold the port already, so the resolved address is what is sure to be meant
            + f"{self.address.user}@{self.address.hostname}",
        )

    def _allowed(self) -> list[str]:
        """Methods of the server; empty when it asked for nothing at all."""
        try:
            return list(self.transport.auth_none(self.address.user))
        except BadAuthenticationType as error:
            return list(error.allowed_types)

    def _keys(self) -> list[str] | None:
        """Offer keys until one is taken. The methods still wanted, [] when done, None when no key was taken."""
        with candidates(self.address, self.credentials) as found:
            offered = 0
            for candidate in found:
                if candidate.key is not None and candidate.key.get_name().startswith("sk-"):
                    self.skipped.append(f"{candidate.name}: not used, hardware keys are not supported")
                    continue
                if offered == MAX_KEYS:
                    left = f"{len(found) - offered} more keys not offered: set IdentityFile and IdentitiesOnly"
                    self.skipped.append(left)
                    break
                try:
                    key = load(candidate, self.asker, self.credentials)
                except AuthenticationFailed as error:
                    self.skipped.append(error.message)
                    continue
                if key is None:
                    self.skipped.append(f"{candidate.name}: no passphrase given")
                    continue
                offered += 1
                self.tried.append(candidate.name)
                try:
                    return list(self.transport.auth_publickey(self.address.user, key))
                except AuthenticationException:
                    if not self.transport.is_active():
                        raise
        return None

    def _interactive(self) -> list[str] | None:
        for _ in range(ANSWER_TRIES):
            asked: list[str] = []

            def answer(title: str, text: str, prompts: list[tuple[str, bool]], asked: list[str] = asked) -> list[str]:
                # On the transport's thread; an exception ends the transport and reaches our caller.
                return [self._ask_prompt(title, text, prompt, echo, asked) for prompt, echo in prompts]

            try:
                return list(self.transport.auth_interactive(self.address.user, answer))
            except AuthenticationException:
                if not self.transport.is_active():
                    raise
            if not asked:
                break  # refused without a question: nothing the operator could do better
            self.tried.append("answers to the server's questions")
        return None

    def _ask_prompt(self, title: str, text: str, prompt: str, echo: bool, asked: list[str]) -> str:
        question = Question(
            "interactive",
            title or f"{self.address} asks",
            "\n".join(part for part in (text.strip(), prompt.strip()) if part),
            not echo,
            {"host": self.address.hostname, "user": self.address.user},
        )
        reply = self.asker.ask(question)
        if reply is None:
            raise self.failed("a question of the server was not answered")
        asked.append(prompt)
        return reply

    def _password(self) -> list[str] | None:
        owner = str(self.address)
        for turn in range(ANSWER_TRIES):
            password = self.credentials.passwords.pop(owner, None)
            if password is None:
                again = "That password was not accepted. " if turn else ""
                details = {"host": self.address.hostname, "user": self.address.user}
                password = self.asker.ask(
                    Question("password", "Password", f"{again}Password for {owner}", True, details)
                )
            if password is None:
                raise self.failed("no password was given")
            self.tried.append("a password")
            try:
                left = list(self.transport.auth_password(self.address.user, password, fallback=False))
            except AuthenticationException:
                if not self.transport.is_active():
                    raise
                continue
            self.credentials.passwords[owner] = password
            return left
        return None

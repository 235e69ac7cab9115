"""Whom a server must be certified by, and what to do where it is not."""

import ssl

import httpx2

_COMPANY = (
    "where your company signs certificates itself, set SSL_CERT_FILE to the PEM file of its authority in the "
    "environment that starts your editor, and restart the worker"
)


def context() -> ssl.SSLContext:
    """Trusts whom the system trusts, or the file that SSL_CERT_FILE names (SSL_CERT_DIR: the folder) instead."""
    return httpx2.create_ssl_context(trust_env=True)


def problem(error: BaseException) -> str:
    """What is wrong with a server's certificate, and what to do; empty where `error` came of something else."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({seen.verify_message.rstrip('.')}); {_COMPANY}"
        if isinstance(seen, ssl.SSLError) and seen.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS; see that the port is the one for https, or write http:// where it is not"
        seen = seen.__cause__ or seen.__context__
    return ""

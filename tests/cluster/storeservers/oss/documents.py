"""The XML documents of OSS requests and responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as ET

from storeservers.oss.errors import OssError

# A document is built from (element, text) or (element, children).
Children = Iterable["tuple[str, str | Children]"]


def document(root: str, content: str | Children) -> bytes:
    """Return a document as it is sent."""
    sent: bytes = ET.tostring(_element(root, content), encoding="UTF-8", xml_declaration=True)
    return sent


def _element(name: str, content: str | Children) -> ET.Element:
    element = ET.Element(name)
    if isinstance(content, str):
        element.text = content
    else:
        element.extend([_element(*child) for child in content])
    return element


def error_document(error: OssError, *, request_id: str, host: str) -> bytes:
    """Return an error document."""
    usual: list[tuple[str, str | Children]] = [
        ("Code", error.code),
        ("Message", error.message),
        ("RequestId", request_id),
        ("HostId", host),
    ]
    details: list[tuple[str, str | Children]] = [
        (name, list(value.items()) if isinstance(value, Mapping) else value) for name, value in error.details.items()
    ]
    return document("Error", [*usual, *details, ("EC", error.ec)])


def parsed(content: bytes) -> ET.Element:
    """Return the root element of a client's document."""
    try:
        return ET.fromstring(content)  # noqa: S314  # sent by the tests' own clients
    except ET.ParseError as exc:
        raise OssError(400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our schema.") from exc

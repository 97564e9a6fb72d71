"""The directive `{contract}`: the services, messages and fields of the protos, with their comments."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PROTOS = Path(__file__).resolve().parents[1] / "protos"
PACKAGE = ".spoolrack.v1."
# The numbers of the fields of a descriptor, of which the path of a comment is made.
MESSAGE, ENUM, SERVICE, FIELD, NESTED, NESTED_ENUM, VALUE, METHOD = 4, 5, 6, 2, 3, 4, 2, 2


def files() -> list[FileDescriptorProto]:
    """Return the descriptors of the contract's files, with the comments. Raises CalledProcessError."""
    names = sorted(path.relative_to(PROTOS).as_posix() for path in PROTOS.glob("spoolrack/*/*.proto"))
    names.sort(key=lambda name: not name.endswith("_service.proto"))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "described"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", "--include_source_info"]
        subprocess.run([*command, f"--descriptor_set_out={out}", *names], check=True)
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


class Page:
    """The lines of one file of the contract, in MyST's Markdown."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments = {
            tuple(each.path): each.leading_comments or each.trailing_comments
            for each in file.source_code_info.location
        }

    def lines(self) -> Iterator[str]:
        yield f"## {self._file.name.removeprefix('spoolrack/v1/')}\n"
        for number, service in enumerate(self._file.service):
            yield from self._head(service.name, SERVICE, number)
            for place, method in enumerate(service.method):
                asked = ("stream " if method.client_streaming else "") + self._link(method.input_type)
                answered = ("stream " if method.server_streaming else "") + self._link(
                    method.output_type
                )
                yield f"(spoolrack.v1.{service.name}.{method.name})="
                yield f"#### {method.name}\n"
                yield f"{asked} → {answered}\n"
                yield self._comment(SERVICE, number, METHOD, place) + "\n"
        for number, message in enumerate(self._file.message_type):
            yield from self._message(message, message.name, MESSAGE, number)
        for number, enum in enumerate(self._file.enum_type):
            yield from self._head(enum.name, ENUM, number)
            yield "| value | number | meaning |\n|---|---|---|"
            for place, value in enumerate(enum.value):
                meaning = self._cell(ENUM, number, VALUE, place)
                yield f"| `{value.name}` | {value.number} | {meaning} |"
            yield ""

    def _head(self, name: str, *path: int) -> Iterator[str]:
        yield f"(spoolrack.v1.{name})="
        yield f"### {name}\n"
        yield self._comment(*path) + "\n"

    def _message(self, message: DescriptorProto, name: str, *path: int) -> Iterator[str]:
        yield from self._head(name, *path)
        if message.field:
            yield "| field | type | number | meaning |\n|---|---|---|---|"
        for place, field in enumerate(message.field):
            meaning = self._cell(*path, FIELD, place)
            if field.HasField("oneof_index") and not field.proto3_optional:
                meaning = f"One of `{message.oneof_decl[field.oneof_index].name}`. {meaning}"
            yield f"| `{field.name}` | {self._type(message, field)} | {field.number} | {meaning} |"
        yield ""
        for place, nested in enumerate(message.nested_type):
            if not nested.options.map_entry:
                yield from self._message(nested, f"{name}.{nested.name}", *path, NESTED, place)
        for place, enum in enumerate(message.enum_type):
            yield from self._head(f"{name}.{enum.name}", *path, NESTED_ENUM, place)
            yield "| value | number | meaning |\n|---|---|---|"
            for at, value in enumerate(enum.value):
                meaning = self._cell(*path, NESTED_ENUM, place, VALUE, at)
                yield f"| `{value.name}` | {value.number} | {meaning} |"
            yield ""

    def _type(self, message: DescriptorProto, field: FieldDescriptorProto) -> str:
        for nested in message.nested_type:
            if nested.options.map_entry and field.type_name.endswith(f".{nested.name}"):
                return "map of " + " to ".join(self._type(nested, each) for each in nested.field)
        if field.type_name:
            name = self._link(field.type_name)
        else:
            name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return f"repeated {name}"
        return f"optional {name}" if field.proto3_optional else name

    def _link(self, name: str) -> str:
        if name.startswith(PACKAGE):
            return f"[{name.removeprefix(PACKAGE)}](#{name.removeprefix('.')})"
        return f"`{name.removeprefix('.')}`"

    def _comment(self, *path: int) -> str:
        # The paths of files and the names of fields are as they stand in the protos.
        text = re.sub(r"^ ", "", self._comments.get(path, ""), flags=re.MULTILINE).strip()
        return re.sub(r"([*<])", r"\\\1", text)

    def _cell(self, *path: int) -> str:
        return " ".join(self._comment(*path).split()).replace("|", "\\|")


class Contract(SphinxDirective):
    """`{contract}`, without arguments or content."""

    def run(self) -> list[nodes.Node]:
        for proto in PROTOS.glob("spoolrack/*/*.proto"):
            self.env.note_dependency(proto)
        text = "\n".join(line for file in files() for line in Page(file).lines())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("contract", Contract)
    return {"parallel_read_safe": True}

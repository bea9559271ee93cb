"""A folder of checkpoints: on a local disk, where what is written survives a power cut, or on a filesystem that Arrow
supports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..platform.errors import ModelError
from .durable import make_folder, reading, storing, sync

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class Storage:
    """A folder, by a path or URI; nothing is made until something is written.

    Args:
        uri: a local path, or what `pyarrow.fs` takes: file://, s3://, gs://, hdfs://.
        parts: names of folders below it.

    Raises:
        ModelError: no filesystem answers to it.
    """

    def __init__(self, uri: str, *parts: str) -> None:
        from pyarrow import ArrowException
        from pyarrow.fs import FileSystem

        self.uri = uri
        self.files: FileSystem
        try:
            self.files, root = FileSystem.from_uri(uri)
        except (ArrowException, OSError, ValueError) as error:
            raise ModelError(
                f"Checkpoints cannot go to {uri!r}: {error}. Give an absolute path, or a URI such as s3://bucket/folder."
            ) from error
        self.local = self.files.type_name == "local"
        self.path = "/".join((root.rstrip("/"), *parts))

    def below(self, name: str) -> str:
        """Return the path of a file or folder."""
        return f"{self.path}/{name}"

    @contextmanager
    def written(self, name: str) -> Iterator[IO[bytes]]:
        """Give a file to write; on a local disk it is durable when the block ends.

        Raises:
            ModelError: the disk is full, or the folder is not writable.
        """
        path = self.below(name)
        with storing(Path(path)):
            folder = path.rpartition("/")[0]
            if self.local:
                make_folder(Path(folder))
            else:
                self.files.create_dir(folder, recursive=True)
            with self.files.open_output_stream(path) as file:
                yield file
            if self.local:
                sync(Path(path))

    def replace(self, name: str, content: bytes) -> None:
        """Write a file so that readers see nothing or all of it; durable on a local disk, with the names beside it."""
        draft = f"{name}.draft"
        with self.written(draft) as file:
            file.write(content)
        with storing(Path(self.below(name))):
            self.files.move(self.below(draft), self.below(name))
            if self.local:
                folder = Path(self.below(name)).parent
                sync(folder)
                sync(folder.parent)

    def opened(self, name: str) -> Any:
        """Open a file for reading at any place.

        Raises:
            FileNotFoundError: it is missing.
        """
        return self.files.open_input_file(self.below(name))

    def size(self, name: str) -> int | None:
        """Return the bytes of a file; None where it is missing."""
        with reading(self.below(name)):
            size: int | None = self.files.get_file_info(self.below(name)).size
        return size

    def folders(self) -> list[str]:
        """Return the names of the folders in it, sorted."""
        from pyarrow.fs import FileSelector, FileType

        with reading(self.path):
            found = self.files.get_file_info(FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type == FileType.Directory)

    def remove(self, name: str = "") -> None:
        """Remove a folder in it, or itself, and all within; one that is gone is fine."""
        from pyarrow.fs import FileType

        path = self.below(name) if name else self.path
        with storing(Path(path)):
            if self.files.get_file_info(path).type == FileType.Directory:
                self.files.delete_dir(path)

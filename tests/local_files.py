"""
Local files in Spark whose permissions are set by a system call.

Without its native library, Hadoop starts a process `chmod` for every file and every checksum that it creates. On small
Iceberg tables, that was a third of Spark's time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "puffin.tests.LocalFiles"
_SOURCE = """
package puffin.tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString())
            );
        }
    }
}
"""


def set_permissions_without_processes(spark: SparkSession, directory: Path) -> None:
    """Have a session use the class above for ``file:``; its bytecode goes into the directory."""
    jvm = spark._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()  # that of `spark.jars`, which every thread has
    compiler = jvm.org.codehaus.janino.SimpleCompiler()  # Spark's own compiler of generated code
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE)
    for name, bytecode in dict(compiler.getBytecodes()).items():
        file = directory.joinpath(*name.split(".")).with_suffix(".class")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(bytecode))
    loader.addURL(jvm.java.io.File(str(directory)).toURI().toURL())
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.file.impl", _CLASS)
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # those that were opened as Spark started
    opened = jvm.org.apache.hadoop.fs.FileSystem.get(hadoop).getClass().getName()
    assert opened == _CLASS, opened

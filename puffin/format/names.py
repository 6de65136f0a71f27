"""The names of blob types, codecs and file properties."""

# Blob types of the spec. Any other string is a valid type too.
THETA_V1 = "apache-datasketches-theta-v1"
DELETION_VECTOR_V1 = "deletion-vector-v1"
# Our own types. They appear in footers only: some readers of table metadata reject types outside the spec.
ROW_COUNTS_V1 = "puffin-sidecar-row-counts-v1"
DISTRIBUTION_V1 = "puffin-sidecar-distribution-v1"
JOINT_V1 = "puffin-sidecar-joint-v1"
PARTITION_SKETCHES_V1 = "puffin-sidecar-partition-sketches-v1"
INDEX_V1 = "puffin-sidecar-index-v1"
INDEX_DIRECTORY_V1 = "puffin-sidecar-index-directory-v1"

# Codecs of the spec.
LZ4 = "lz4"
ZSTD = "zstd"

CREATED_BY = "created-by"  # the file property that names the writing application

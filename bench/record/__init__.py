"""The run of record: `make record` measures every suite and writes `record.json`, from which the documents are made."""

"""boto3 on a stand-in for S3 in real threads. Argument: the port, whose server waits until all ask."""

from __future__ import annotations

import sys

import boto3
from botocore.config import Config

from tests.ecosystem.clients.parts import at_once, part, run

PORT = int(sys.argv[1])
MANY = 20
CONFIG = Config(max_pool_connections=MANY, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
client = boto3.client(
    "s3",
    endpoint_url=f"http://127.0.0.1:{PORT}",
    region_name="nowhere",
    aws_access_key_id="key",
    aws_secret_access_key="secret",
    config=CONFIG,
)


@part
def objects_at_once() -> None:
    def one(_: int) -> bytes:
        answer = client.get_object(Bucket="together", Key=str(MANY))
        return bytes(answer["Body"].read())

    for _ in range(2):
        assert at_once(MANY, one) == [b"all"] * MANY


if __name__ == "__main__":
    run()

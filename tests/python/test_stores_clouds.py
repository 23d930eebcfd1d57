"""Google's and Azure's ways of speaking, on loopback, and TLS with a certificate of one's own.

The servers speak what their documentation says, as far as reading needs it: the real ones are not
asked. Azure's signatures are made here a second time and compared.
"""

import base64
import hashlib
import hmac
import shutil
import subprocess
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

import numpy as np
import pytest
from PIL import Image
from stores import Bucket, assert_alike, everything

import feedline
from feedline import _feedline
from s3_server import Handler, S3Server, etag_of, paged

pytestmark = pytest.mark.skipif(
    not hasattr(_feedline, "configure_store"), reason="built without stores"
)

ACCOUNT, SECRET = "somebody", base64.b64encode(b"a secret of some length").decode()


class Google(Handler):
    """Google Cloud Storage's XML API, of a bucket that anybody may read."""

    def denied(self):
        if "Authorization" not in self.headers:
            return None
        return "AccessDenied", "No credentials were given, so none should come."


class Azure(Handler):
    """Azure's Blob service, with keys shared by account."""

    no_bucket = "ContainerNotFound"

    def denied(self):
        said = self.headers.get("Authorization", "")
        signature = base64.b64encode(
            hmac.digest(base64.b64decode(SECRET), self.to_be_signed().encode(), hashlib.sha256)
        ).decode()
        if hmac.compare_digest(said, f"SharedKey {ACCOUNT}:{signature}"):
            return None
        return "AuthenticationFailed", "The signature is not the one that was expected."

    def to_be_signed(self):
        """What learn.microsoft.com says under "Authorize with Shared Key"."""
        parts = urlsplit(self.path)
        names = "Content-Encoding Content-Language Content-Length Content-MD5 Content-Type Date"
        names += " If-Modified-Since If-Match If-None-Match If-Unmodified-Since Range"
        values = [self.headers.get(name, "") for name in names.split()]
        if values[2] == "0":
            values[2] = ""
        special = sorted(
            (name.lower(), value.strip())
            for name, value in self.headers.items()
            if name.lower().startswith("x-ms-")
        )
        headers = "".join(f"{name}:{value}\n" for name, value in special)
        queries = sorted((name.lower(), value) for name, value in parse_qsl(parts.query))
        resource = f"/{ACCOUNT}{parts.path}"
        resource += "".join(f"\n{name}:{value}" for name, value in queries)
        return "\n".join([self.command, *values, headers + resource])

    def list(self, bucket, objects, query):
        assert query["restype"] == ["container"]
        assert query["comp"] == ["list"]
        (prefix,) = query.get("prefix", [""])
        (after,) = query.get("marker", [""])
        page, more = paged(objects, prefix, unquote(after))
        # Azure's ETags have no quotes in a listing.
        blobs = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>"
            "<Last-Modified>Wed, 01 Jan 2025 00:00:00 GMT</Last-Modified>"
            f"<Etag>{etag_of(objects[key]).strip(chr(34))}</Etag>"
            f"<Content-Length>{len(objects[key])}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
            "</Properties></Blob>"
            for key in page
        )
        marker = f"<NextMarker>{escape(page[-1])}</NextMarker>" if more else "<NextMarker />"
        self.send(
            200,
            '<?xml version="1.0" encoding="utf-8"?><EnumerationResults '
            f'ContainerName="{bucket}"><Blobs>{blobs}</Blobs>{marker}</EnumerationResults>',
        )


def google(server):
    return "gs", {"base_url": server.endpoint, "skip_signature": "true"}


def azure(server):
    return "az", {"endpoint": server.endpoint, "account_name": ACCOUNT, "account_key": SECRET}


CLOUDS = [pytest.param(Google, google, id="google"), pytest.param(Azure, azure, id="azure")]


@pytest.fixture
def cloud(request, tmp_path, monkeypatch):
    """A server, the beginning of its URLs and the options."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    handler, told = request.param
    server = S3Server(handler)
    yield server, *told(server)
    server.close()


each_cloud = pytest.mark.parametrize(
    "cloud", [pytest.param(it.values, id=it.id) for it in CLOUDS], indirect=True
)


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(12):
        path = tmp_path / "photos" / "train" / ["ant", "bee & co"][i % 2] / f"{i} ü.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (16, 20, 3), np.uint8)).save(path)
    return tmp_path / "photos"


@each_cloud
def test_objects_of_each_cloud_are_the_files(cloud, photos):
    server, scheme, options = cloud
    bucket = Bucket(server, photos)
    far = feedline.images(f"{scheme}://{bucket.name}/train", storage_options=options)
    expected = everything(feedline.images(photos / "train"), shuffle=True)
    assert_alike(everything(far, shuffle=True, num_workers=2), expected)


@each_cloud
def test_ranges_of_an_object_that_does_not_change_under_way(cloud, tmp_path):
    server, scheme, options = cloud
    folder = tmp_path / "arrays"
    folder.mkdir()
    values = np.arange(30_000, dtype=np.float32).reshape(30, 1000)
    np.save(folder / "packed.npy", values)
    bucket = Bucket(server, folder)
    url = f"{scheme}://{bucket.name}/packed.npy"
    far = feedline.npy(url, storage_options=options)
    expected = everything(feedline.npy(folder / "packed.npy"), shuffle=True)
    assert_alike(everything(far, shuffle=True, num_workers=2), expected)


@each_cloud
def test_a_listing_of_several_pages_is_whole(cloud):
    server, scheme, options = cloud
    names = [f"a {i % 3}/{i:05}.png" for i in range(2500)]
    server.buckets["many"] = {f"train/{name}": name.encode() for name in names}
    server.buckets["many"]["training/other.png"] = b"not below it"
    # Without classes= it is looked first whether there are folders.
    listed = feedline.images(f"{scheme}://many/train", classes=True, storage_options=options)
    assert len(listed) == 2500
    assert sum(method == "GET" for method, _ in server.requests) == 3


@each_cloud
def test_faults_are_overcome_and_what_is_wrong_is_said(cloud, photos):
    server, scheme, options = cloud
    bucket = Bucket(server, photos)
    server.errors = server.resets = server.truncations = 1
    far = feedline.images(f"{scheme}://{bucket.name}/train", storage_options=options)
    assert_alike(everything(far), everything(feedline.images(photos / "train")))
    with pytest.raises(FileNotFoundError, match="there is no such bucket"):
        feedline.images(f"{scheme}://nowhere/train", storage_options=options)
    with pytest.raises(FileNotFoundError, match=r"x\.npy.*there is no such object"):
        feedline.npy(f"{scheme}://{bucket.name}/x.npy", storage_options=options)


@pytest.mark.parametrize("cloud", [(Azure, azure)], indirect=True)
def test_a_wrong_key_is_refused_by_azure(cloud, photos):
    server, scheme, options = cloud
    bucket = Bucket(server, photos)
    wrong = options | {"account_key": base64.b64encode(b"another").decode()}
    with pytest.raises(PermissionError, match="AuthenticationFailed"):
        feedline.images(f"{scheme}://{bucket.name}/train", storage_options=wrong)


@pytest.fixture
def authority(tmp_path):
    """A certificate authority, and a server's certificate by it with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("certificates are made by openssl, which is not here")
    folder = tmp_path / "certificates"
    folder.mkdir()

    def run(*arguments):
        subprocess.run([openssl, *arguments], check=True, cwd=folder, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=loopback")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names"]
    run("x509", "-req", "-in", "server.csr", *signed, "-out", "server.pem")
    both = folder / "both.pem"
    both.write_bytes((folder / "server.pem").read_bytes() + (folder / "server.key").read_bytes())
    return folder / "ca.pem", both


def test_tls_with_a_certificate_of_ones_own(authority, photos, monkeypatch):
    trusted, certificate = authority
    server = S3Server(certificate=certificate)
    try:
        bucket = Bucket(server, photos)
        expected = everything(feedline.images(photos / "train"))
        options = server.options
        assert server.endpoint.startswith("https://")
        with pytest.raises(OSError, match=r"invalid peer certificate.*ca_bundle"):
            feedline.images(bucket.url("train"), storage_options=options)
        by_option = options | {"ca_bundle": trusted}
        assert_alike(
            everything(feedline.images(bucket.url("train"), storage_options=by_option)), expected
        )
        other = Bucket(server, photos)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
        assert_alike(
            everything(feedline.images(other.url("train"), storage_options=options)), expected
        )
        for wrong, told in ((trusted.with_name("none.pem"), "No such file"), (photos, "directory")):
            with pytest.raises(ValueError, match=f"(?i)certificates in .*{told}.*ca_bundle"):
                feedline.images(other.url(), storage_options=options | {"ca_bundle": wrong})
    finally:
        server.close()


def test_where_a_store_is_comes_from_the_environment_before_the_profile(
    photos, tmp_path, monkeypatch
):
    server = S3Server()
    try:
        bucket = Bucket(server, photos)
        options = server.options
        config = tmp_path / "config"
        config.write_text(
            "[profile lab]\n"
            f"aws_access_key_id = {options['access_key_id']}\n"
            f"aws_secret_access_key = {options['secret_access_key']}\n"
            "endpoint_url = http://127.0.0.1:9\n"
        )
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_PROFILE", "lab")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        far = feedline.images(bucket.url("train"))
        assert_alike(everything(far), everything(feedline.images(photos / "train")))
    finally:
        server.close()

"""What sam_local.py needs from the template, the page and the manifests; `make sam-local` runs it."""

import re

import pytest
import sam_local

FUNCTIONS = {*sam_local.FUNCTIONS, "LongProcessor"}


def manifest(binary):
    return (sam_local.ROOT / f"functions/{binary}/Cargo.toml").read_text()


def test_sam_serves_the_routes_of_sources_and_of_workers():
    found = {(route.path, route.function_name, route.payload_format_version) for route in sam_local.routes()}

    sources = {(path, "Catcher", "2.0") for path in ("/in/{source}", "/in/{source}/{path+}")}
    # SAM serves a route whatever its condition is.
    assert found == sources | {("/work/{queue}/{op}", "Processor", "2.0")}


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_the_file_replaces_every_variable_that_names_a_resource(function):
    own = sam_local.sam_environment(function, None)
    declared = {name for name in own if name.startswith("MITT_")}
    replaced = sam_local.sam_environment(function, {function: dict.fromkeys(declared, "replaced")})

    assert {"MITT_ENDPOINTS", "MITT_SOURCES", "MITT_SOURCES_FILE", "MITT_ALLOWED_HOSTS"} <= declared
    assert own["MITT_ENDPOINTS"] == "", "a deployment would not call AWS"
    assert {name for name, value in replaced.items() if value == "replaced"} == declared


def test_sam_passes_no_variable_that_the_template_does_not_declare():
    found = sam_local.sam_environment("Catcher", {"Catcher": {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1"}})

    assert "AWS_ENDPOINT_URL_DYNAMODB" not in found


def test_cargo_lambda_reads_the_path_of_the_secrets_only_for_watch():
    paths = {"catcher": "/mitt/ingress", "processor": "/mitt/egress", "backup-sync": "/mitt/provider-api"}
    for binary, path in paths.items():
        text = manifest(binary)
        assert re.search(r"^\[package\.metadata\.lambda\.watch\]\nenv = (.*)$", text, re.MULTILINE)[1] == (
            f'{{ MITT_SECRETS_PATH = "{path}" }}'
        )
        # `cargo lambda deploy` would also set these variables in a deployed function.
        assert "[package.metadata.lambda.env]" not in text


def test_the_page_has_the_commands_that_the_script_runs():
    sam_local.check_page(sam_local.page_commands())


def test_a_command_that_the_script_does_not_run_is_refused():
    with pytest.raises(sam_local.Astray, match="sam local something"):
        sam_local.check_page([*sam_local.PAGE_COMMANDS, "sam local something"])

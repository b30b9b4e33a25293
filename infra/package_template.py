"""The template of a release after the SAM transform, for AWS CDK, Terraform, StackSets and plain CloudFormation.

Two parameters name the bucket and the folder of the zips, so that no tool has to package the template.
"""

import json
import logging
import os

from package_files import Trouble

PARAMETERS = {
    "CodeBucket": {
        "Type": "String",
        "AllowedPattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        "Description": "Bucket with the zips of the release, in the Region of the stack.",
    },
    "CodePrefix": {
        "Type": "String",
        "AllowedPattern": "^([A-Za-z0-9!_.*'()-]+/)+$",
        "Description": "Folder of the zips in the bucket, such as mitt/v1.0.0/. CloudFormation deploys changed zips only from a "
        "new folder.",
    },
}

# SAM decides at the transform whether CodeDeploy moves the requests, so no parameter can.
RULES = {
    "GradualDeploymentsNeedSam": {
        "Assertions": [
            {
                "Assert": {"Fn::Equals": [{"Ref": "GradualDeployment"}, "false"]},
                "AssertDescription": "GradualDeployment works only with the SAM template of the release. Leave it out.",
            }
        ]
    }
}


def expanded(template: str, zips: set[str]) -> str:
    """Returns the template that SAM makes of this one, as JSON. `zips` has the names of the zips that it must name."""
    # samtranslator needs a Region, but calls no AWS API.
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    from samcli.yamlhelper import yaml_parse
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    # Hides the warning of samtranslator that it does not collect metrics.
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    parsed = yaml_parse(template)
    for resource in parsed["Resources"].values():
        properties = resource.get("Properties", {})
        if name := properties.get("CodeUri"):
            properties["CodeUri"] = f"s3://bucket/{name}"
    made = Translator({}, Parser()).translate(parsed, parameter_values={})
    made["Parameters"] |= PARAMETERS
    made["Rules"] |= RULES
    functions = [part["Properties"] for part in made["Resources"].values() if "S3Key" in part["Properties"].get("Code", {})]
    if {function["Code"]["S3Key"] for function in functions} != zips or "Transform" in made:
        raise Trouble("the transformed template does not name its zips as package_template.py expects")
    for function in functions:
        key = f"${{CodePrefix}}{function['Code']['S3Key']}"
        function["Code"] = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Fn::Sub": key}}
    return json.dumps(made, indent=1) + "\n"

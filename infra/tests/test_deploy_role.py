"""infra/deploy-role.yaml and infra/deploy-workflow.yml: who may deploy the inbox, and what a deployment may change."""

import json

import pytest
import yaml

import template_gate
from template_parts import ROOT, TEXT, listed, of_type, parse, properties
from test_workflows import CHECKOUT, zizmor

ROLES = ROOT / "infra/deploy-role.yaml"
WORKFLOW = ROOT / "infra/deploy-workflow.yml"

# The IAM service of each group of resource types.
SERVICES = {
    "ApiGatewayV2": "apigateway",
    "CloudWatch": "cloudwatch",
    "CodeDeploy": "codedeploy",
    "DynamoDB": "dynamodb",
    "IAM": "iam",
    "Lambda": "lambda",
    "Logs": "logs",
    "Route53": "route53",
    "S3": "s3",
    "SNS": "sns",
    "SQS": "sqs",
    "SSM": "ssm",
    "Scheduler": "scheduler",
}


@pytest.fixture
def roles():
    return parse(ROLES.read_text())


def policy(roles, name):
    [given] = properties(roles, name)["Policies"]
    return {statement["Sid"]: statement for statement in given["PolicyDocument"]["Statement"]}


def test_it_can_be_deployed():
    assert template_gate.lint(parse(ROLES.read_text())) == []


def test_only_one_environment_of_one_repository_may_deploy(roles):
    [trust] = properties(roles, "Deploy")["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert trust["Principal"] == {"Federated": {"Fn::If": ["CreatesProvider", {"Ref": "Provider"}, {"Ref": "ProviderArn"}]}}
    place = "token.actions.githubusercontent.com"
    assert trust["Condition"] == {
        "StringEquals": {
            f"{place}:aud": "sts.amazonaws.com",
            f"{place}:sub": {"Fn::Sub": "repo:${Repository}:environment:${Environment}"},
        }
    }
    [trust] = properties(roles, "CloudFormation")["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "cloudformation.amazonaws.com"}


def test_the_workflow_can_only_start_a_deployment(roles):
    statements = policy(roles, "Deploy")
    allowed = {action for statement in statements.values() for action in listed(statement["Action"])}
    assert {action.split(":")[0] for action in allowed} == {"cloudformation", "iam", "s3"}
    assert not any("*" in action for action in allowed)
    passing = statements["ActAsCloudFormation"]
    assert passing["Resource"] == {"Fn::GetAtt": ["CloudFormation", "Arn"]}
    assert passing["Condition"] == {"StringEquals": {"iam:PassedToService": "cloudformation.amazonaws.com"}}


def test_a_deployment_may_change_each_kind_of_resource_and_only_those_of_the_stack(roles):
    statements = policy(roles, "CloudFormation")
    allowed = [one for one in statements.values() if one["Effect"] == "Allow"]
    services = {action.split(":")[0] for one in allowed for action in listed(one["Action"])}
    used = {part["Type"].split("::")[1] for part in template_gate.expand(template_gate.TEMPLATE)["Resources"].values()}
    assert used <= SERVICES.keys(), "the template has a service that the role does not know"
    assert {SERVICES[one] for one in used} | {"codedeploy", "route53"} == services - {"cloudformation"}
    # Actions that support no resource, and resources that AWS names.
    unnamed = {"Mappings", "AccessLog", "Api", "DomainRecord", "Transform", "Code"}
    for sid, statement in statements.items():
        if statement["Effect"] == "Allow" and sid not in unnamed:
            for resource in listed(statement["Resource"]):
                named = resource["Fn::Sub"]
                assert "${StackName}" in named or named.endswith(":deploymentconfig:*"), sid


def test_a_deployment_reads_no_event_and_gives_no_role_away(roles):
    statements = policy(roles, "CloudFormation")
    denied = {action for one in statements.values() if one["Effect"] == "Deny" for action in listed(one["Action"])}
    assert {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan", "sqs:ReceiveMessage", "s3:GetObject"} <= denied
    assert statements["ReadNoEvents"]["Resource"] == "*"
    secrets = [action for one in statements.values() for action in listed(one["Action"]) if action.startswith("ssm:")]
    assert statements["NamesOfResources"]["Resource"]["Fn::Sub"].endswith("parameter/${StackName}/names") and secrets
    services = statements["GiveRoles"]["Condition"]["StringEquals"]["iam:PassedToService"]
    taken = {
        trust["Principal"]["Service"]
        for _, role in of_type(parse(TEXT), "AWS::IAM::Role")
        for trust in role["AssumeRolePolicyDocument"]["Statement"]
    }
    assert set(services) == taken
    condition, within, without = statements["Permissions"]["Condition"]["Fn::If"]
    assert condition == "HasBoundary" and without == {"Ref": "AWS::NoValue"}
    assert within == {"StringEquals": {"iam:PermissionsBoundary": {"Ref": "PermissionsBoundaryArn"}}}
    assert {"iam:CreateRole", "iam:PutRolePolicy", "iam:AttachRolePolicy"} <= set(statements["Permissions"]["Action"])
    assert "iam:DeleteRolePermissionsBoundary" not in json.dumps(statements)


def test_the_workflow_uses_the_roles_and_no_stored_key():
    text = WORKFLOW.read_text()
    workflow = yaml.safe_load(text)
    [job] = workflow["jobs"].values()
    assert workflow["permissions"] == {} and job["permissions"] == {"contents": "read", "id-token": "write"}
    assert job["environment"] == parse(ROLES.read_text())["Parameters"]["Environment"]["Default"]
    outputs = {"DEPLOY_ROLE", "CLOUDFORMATION_ROLE", "ARTIFACT_BUCKET"}
    said = ROLES.read_text()
    assert all(f"vars.{name}" in text and f"variable {name}." in said for name in outputs)
    assert "secrets." not in text and f"uses: {CHECKOUT}" in text


def test_the_workflow_has_no_finding(tmp_path):
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    (folder / "deploy.yml").write_text(WORKFLOW.read_text())

    code, said = zizmor(tmp_path / ".github")

    assert code == 0, said


BROKEN = [
    (test_only_one_environment_of_one_repository_may_deploy, ":environment:${Environment}", ":*"),
    (test_only_one_environment_of_one_repository_may_deploy, "aud: sts.amazonaws.com", "aud: '*'"),
    (test_the_workflow_can_only_start_a_deployment, "Resource: !GetAtt CloudFormation.Arn", "Resource: '*'"),
    (test_the_workflow_can_only_start_a_deployment, "Action: [s3:GetObject, s3:PutObject]", "Action: s3:*"),
    (test_a_deployment_may_change_each_kind_of_resource_and_only_those_of_the_stack, "Action: sns:*", "Action: ses:*"),
    (test_a_deployment_may_change_each_kind_of_resource_and_only_those_of_the_stack, ":table/${StackName}-*", ":table/*"),
    (test_a_deployment_reads_no_event_and_gives_no_role_away, "                  - dynamodb:Scan\n", ""),
    (test_a_deployment_reads_no_event_and_gives_no_role_away, ", codedeploy.amazonaws.com]", ", ec2.amazonaws.com]"),
    (test_a_deployment_reads_no_event_and_gives_no_role_away, "                  - iam:CreateRole\n", ""),
]  # fmt: skip


@pytest.mark.parametrize("test, sound, fault", BROKEN)
def test_each_of_these_fails_when_it_should(test, sound, fault):
    text = ROLES.read_text()
    assert sound in text, "deploy-role.yaml no longer contains this text; update BROKEN"
    with pytest.raises(AssertionError):
        test(parse(text.replace(sound, fault, 1)))

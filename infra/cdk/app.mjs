// Deploys the template of a release. The bucket has the zips of the release, in a folder for each release.
import { App, Stack, Validations } from "aws-cdk-lib";
import { CfnInclude } from "aws-cdk-lib/cloudformation-include";

const stack = new Stack(new App(), "mitt");
// These rules do not follow the conditions of the template. Mitt's tests check each set of parameters with cfn-lint.
const rules = ["W1001", "W1030", "W2509", "W3011", "W8003", "W9052"].map((rule) => `CloudFormation-Validate::${rule}`);
Validations.of(stack).acknowledge(...rules.map((id) => ({ id, reason: "conditions of the template" })));
const mitt = new CfnInclude(stack, "Mitt", {
  templateFile: process.env.MITT_TEMPLATE ?? "template-arm64.cfn.json",
  parameters: { CodeBucket: "amzn-s3-demo-bucket", CodePrefix: "mitt/v0.1.0/", AlarmEmail: "on-call@example.com" },
});
stack.exportValue(mitt.getResource("Inbox").attrArn, { name: "InboxArn" });

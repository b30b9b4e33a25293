"""Plays the frontend of a Temporal service, as far as a client needs it to start workflows.

The service keeps the rules of https://docs.temporal.io/workflow-execution/workflowid-runid: an id of a running workflow is
refused, and the reuse policy decides on the id of a closed one. After the retention period, the id is forgotten.
"""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf.any_pb2 import Any
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.enums.v1 import WorkflowIdReusePolicy as Reuse
from temporalio.api.errordetails.v1 import WorkflowExecutionAlreadyStartedFailure
from temporalio.api.workflowservice.v1 import GetSystemInfoResponse, StartWorkflowExecutionResponse
from temporalio.api.workflowservice.v1.service_pb2_grpc import (
    WorkflowServiceServicer,
    add_WorkflowServiceServicer_to_server,
)


class Workflow:
    def __init__(self, request):
        self.request, self.run = request, str(uuid.uuid4())
        self.closed_at, self.is_completed = None, False

    def close(self, completed=True, seconds_ago=0):
        self.closed_at, self.is_completed = time.time() - seconds_ago, completed


class TemporalService(WorkflowServiceServicer):
    """`after_next` is called once, after a request was handled and before its answer is sent."""

    def __init__(self, retention=24 * 3600):
        self.retention, self.started, self.requests = retention, [], []
        self.after_next, self.lock = None, threading.Lock()

    def __enter__(self):
        self.server = grpc.server(ThreadPoolExecutor(8))
        add_WorkflowServiceServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(grace=None)

    def effects(self):
        return [workflow.request.workflow_id for workflow in self.started]

    def GetSystemInfo(self, request, context):
        return GetSystemInfoResponse(server_version="1.29.0")

    def StartWorkflowExecution(self, request, context):
        with self.lock:
            self.requests.append(request)
            workflow, refusal = self.known(request.workflow_id), None
            if workflow is None or allows_reuse(request, workflow):
                workflow = Workflow(request)
                self.started.append(workflow)
            elif workflow.request.request_id != request.request_id:
                refusal = already_started(workflow)
            after, self.after_next = self.after_next, None
        if after:
            after()
        if refusal:
            context.set_trailing_metadata((("grpc-status-details-bin", refusal.SerializeToString()),))
            context.abort(grpc.StatusCode.ALREADY_EXISTS, refusal.message)
        return StartWorkflowExecutionResponse(run_id=workflow.run, started=True)

    def known(self, workflow_id):
        """Returns the last workflow with this id, unless it closed before the retention period."""
        found = [workflow for workflow in self.started if workflow.request.workflow_id == workflow_id]
        oldest = time.time() - self.retention
        return found[-1] if found and (found[-1].closed_at is None or found[-1].closed_at > oldest) else None


def allows_reuse(request, known):
    # The SDK repeats a request without an answer with the id of the request.
    if known.closed_at is None or known.request.request_id == request.request_id:
        return False
    # The first value is the default.
    allowed = [Reuse.WORKFLOW_ID_REUSE_POLICY_UNSPECIFIED, Reuse.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE]
    if not known.is_completed:
        allowed.append(Reuse.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY)
    return request.workflow_id_reuse_policy in allowed


def already_started(known):
    failure, detail = WorkflowExecutionAlreadyStartedFailure(run_id=known.run), Any()
    failure.start_request_id = known.request.request_id
    detail.Pack(failure)
    code, _ = grpc.StatusCode.ALREADY_EXISTS.value
    return GrpcStatus(code=code, message="Workflow execution already started", details=[detail])

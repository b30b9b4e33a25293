//! A proxy that records the requests to the services.

use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};

pub(crate) use crate::calls::Call;
use crate::calls::calls;
use testkit::wire::{Message, Socket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    DynamoDb,
    Sqs,
    S3,
    Ssm,
    SecretsManager,
    Lambda,
    CloudWatch,
    Sts,
}

#[derive(Clone)]
pub(crate) struct Recorder(Arc<Mutex<Vec<Call>>>);

impl Recorder {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Records the requests to the returned URL, and forwards them to `url`.
    pub(crate) async fn stand_before(&self, service: Service, url: &str) -> String {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        self.stand(service, Some(address.to_owned())).await
    }

    /// Records the requests to the returned URL, and answers them itself. This is for services that
    /// are not emulated, and whose answers no command needs.
    pub(crate) async fn stand_in_for(&self, service: Service) -> String {
        self.stand(service, None).await
    }

    async fn stand(&self, service: Service, behind: Option<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = format!("http://{}", listener.local_addr().unwrap());
        let recorder = self.clone();
        // The task ends with the test's runtime.
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (recorder, behind) = (recorder.clone(), behind.clone());
                tokio::spawn(async move { recorder.serve(service, client, behind).await });
            }
        });
        here
    }

    async fn serve(
        &self,
        service: Service,
        client: TcpStream,
        behind: Option<String>,
    ) -> Option<()> {
        let mut client = Socket::new(client);
        let mut server = match behind {
            Some(address) => Some(Socket::new(TcpStream::connect(address).await.ok()?)),
            None => None,
        };
        while let Some(request) = Message::read(&mut client).await {
            self.0.lock().unwrap().extend(calls(service, &request));
            let answer = match &mut server {
                Some(server) => {
                    request.write(server).await.ok()?;
                    Message::read(server).await?
                }
                None => empty(service),
            };
            answer.write(&mut client).await.ok()?;
        }
        Some(())
    }
}

/// Returns an answer of a service without content, or with the caller's identity only.
fn empty(service: Service) -> Message {
    match service {
        // The body is an empty map in CBOR, which means that there are no alarms.
        Service::CloudWatch => {
            let protocol = "smithy-protocol: rpc-v2-cbor\r\n";
            Message::answer(200, "application/cbor", protocol, vec![0xa0])
        }
        _ => Message::answer(200, "text/xml", "", WHO),
    }
}

const WHO: &str = "<GetCallerIdentityResponse><GetCallerIdentityResult>\
    <Arn>arn:aws:sts::000000000000:assumed-role/Oncall/anna</Arn><UserId>A</UserId>\
    <Account>000000000000</Account></GetCallerIdentityResult></GetCallerIdentityResponse>";

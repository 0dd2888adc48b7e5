//! `open`: the page in a browser, with the token in the link.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::digest::whole_bag_id;
use super::failure::{Exit, Failure};
use super::held_home::{is_home, no_home};
use super::home_access::HomeAccess;
use super::published::{one_named, open_bus};
use super::read::{nothing_named, summary_of_request};
use super::run_home::run_service;
use super::settings::load_config;
use super::source_files::known_name;
use super::{Context, ui};
use crate::control::question::{Answer, Question};
use crate::control::socket::ControlClient;
use crate::home::Home;
use crate::os::Disk;
use crate::service::Until;

/// Time between two looks for the service that this command starts.
const PAUSE: Duration = Duration::from_millis(50);

/// Open the page in a browser: read, search, and ask for texts
///
/// Opens the page of the running service. Without one, this command runs a service until Ctrl-C. The link
/// holds a token: only a page that was opened with it can retry, cancel, pause, release lines and request
/// summaries.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  summarizer open
  summarizer open bike-repair.md
  summarizer open --print")]
pub(crate) struct OpenArgs {
    /// What to show: the name of a source, or the id of a summary, a request or a digest
    /// [default: the newest summaries]
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Print the link and do not start a browser
    #[arg(long)]
    print: bool,
}

impl OpenArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if !is_home(context)? {
            return Err(no_home(context, "make one with `summarizer add --init PATH`"));
        }
        let view = self.id.as_deref().map(|id| view_of(context, id)).transpose()?;
        let home = Home::new(&context.home, &load_config(context)?);
        let link = Link { context: context.clone(), home, view, print: self.print };
        if ControlClient::connect(&link.home.socket()).is_ok() {
            let mut session = HomeAccess::open(context)?;
            let page = session.ask(context, &Question::Page);
            session.close()?;
            link.follow(&page?);
            return Ok(Exit::Done);
        }
        let mut following = std::thread::Builder::new();
        following = following.name("open".to_owned());
        let following = following.spawn(move || link.follow_when_up());
        following
            .map_err(|error| Failure::new(Exit::Bug, "cannot wait for the page").because(&error))?;
        context.ui.talk("no service runs here: this one ends with Ctrl-C");
        run_service(context, "serve", Until::Stopped)?;
        context.ui.talk("stopped");
        Ok(Exit::Done)
    }
}

/// The view of the page that shows what a person names.
fn view_of(context: &Context, id: &str) -> Result<String, Failure> {
    if id.starts_with("bag_") {
        return Ok(format!("/digest/{}", whole_bag_id(context, id)));
    }
    // A home without summaries may know the request that is named.
    let known = || summary_of_request(context, id).err();
    let bus = open_bus(context).map_err(|failure| known().unwrap_or(failure))?;
    let summary = match one_named(context, &bus, &known_name(context, id))? {
        Some(one) => Some(one.id().to_owned()),
        None => summary_of_request(context, id)?,
    };
    match summary {
        Some(summary) => Ok(format!("/summary/{summary}")),
        None => Err(nothing_named(context, &bus, id)),
    }
}

/// The way from the page of a service to a browser.
struct Link {
    context: Context,
    home: Home,
    view: Option<String>,
    print: bool,
}

impl Link {
    /// Waits until the service of this process answers. It ends with the process.
    fn follow_when_up(&self) {
        loop {
            let answer = ControlClient::connect(&self.home.socket())
                .and_then(|mut client| client.ask(&Question::Page));
            match answer {
                Ok(Answer::Ok(page)) => return self.follow(&page),
                Ok(Answer::Starting(_)) | Err(_) => std::thread::sleep(PAUSE),
                Ok(Answer::Refused(why) | Answer::NotFound(why)) => {
                    return self.context.ui.complain(format!("cannot open the page: {why}"));
                }
            }
        }
    }

    fn follow(&self, page: &Value) {
        let text = |name: &str| page[name].as_str().unwrap_or_default();
        let view = self.view.as_deref().unwrap_or("/");
        let url = format!("http://{}/#token={}&view={view}", text("address"), text("token"));
        let ui = self.context.ui;
        if ui.json {
            ui.json(&json!({"url": url}));
        } else {
            ui.out(&url);
        }
        if self.print || ui.json {
            return;
        }
        // Any user can read the arguments of a process: the browser gets a file, not the token.
        let file = self.home.run().join("open.html");
        let started = write_redirect(&*self.context.machine.disk, &file, &url).and_then(|()| {
            let file = std::path::absolute(&file)?;
            start_browser(&file)
        });
        if let Err(error) = started {
            ui.talk(format!("no browser was started ({error}): open the link above"));
        } else {
            ui.talk(ui::dim("opened in the browser; the link above does the same"));
        }
    }
}

/// A document that leads to the page. Only its owner may read it.
fn write_redirect(disk: &dyn Disk, file: &Path, url: &str) -> std::io::Result<()> {
    let url = url.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let document = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>summarizer</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">summarizer</a>\n"
    );
    disk.replace(file, document.as_bytes(), 0o600)
}

/// Starts the browser of the person: `BROWSER`, or what the system opens documents with.
fn start_browser(file: &Path) -> std::io::Result<()> {
    let given = std::env::var("BROWSER").unwrap_or_default();
    let of_system = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let first = given.split(':').next().filter(|given| !given.trim().is_empty());
    let mut words = first.unwrap_or(of_system).split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(of_system));
    command.args(words).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The browser outlives this command, so the command does not wait for it.
    command.spawn().map(drop)
}

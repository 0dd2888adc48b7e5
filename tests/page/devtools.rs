//! A tab of a browser that is driven over the DevTools protocol: taps, keys, sizes, colour schemes.
//!
//! The browser reads commands from descriptor 3 and answers on descriptor 4. A shell connects both to
//! named pipes, because a test may not change descriptors of a child itself.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a condition on the page may take to come true.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Tab {
    browser: Child,
    commands: File,
    answers: BufReader<File>,
    session: Option<String>,
    number: u64,
    _profile: tempfile::TempDir,
}

impl Tab {
    pub fn start(program: &Path) -> Tab {
        let profile = tempfile::tempdir().unwrap();
        let (commands, answers) = (profile.path().join("commands"), profile.path().join("answers"));
        let made = Command::new("mkfifo").args([&commands, &answers]).status().unwrap();
        assert!(made.success(), "mkfifo makes the pipes");
        let script = "commands=$1 answers=$2; shift 2; exec \"$@\" 3<\"$commands\" 4>\"$answers\"";
        let browser = Command::new("/bin/sh")
            .args(["-c", script, "sh"])
            .args([&commands, &answers])
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server"])
            .args(["--disable-background-networking", "--remote-debugging-pipe", "--lang=en-US"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Each side waits here until the other one has opened the pipe too.
        let commands = OpenOptions::new().write(true).open(commands).unwrap();
        let answers = BufReader::new(File::open(answers).unwrap());
        let mut tab =
            Tab { browser, commands, answers, session: None, number: 0, _profile: profile };
        let target = tab.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = tab.call("Target.attachToTarget", attach);
        tab.session = session["sessionId"].as_str().map(str::to_owned);
        tab
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut command = json!({"id": self.number, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            let count = self.answers.read_until(0, &mut bytes).unwrap();
            assert!(count > 0, "the browser ended before it answered {method}");
            bytes.pop();
            let mut answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// The size of the window, whether it is touched, and the colours that the person prefers.
    pub fn screen(&mut self, width: u32, height: u32, is_touched: bool, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
                          "mobile": is_touched});
        self.call("Emulation.setDeviceMetricsOverride", size);
        self.call("Emulation.setTouchEmulationEnabled", json!({"enabled": is_touched}));
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Loads a page anew, even where only the part behind `#` differs.
    pub fn open(&mut self, url: &str) {
        for url in ["about:blank", url] {
            self.call("Page.navigate", json!({"url": url}));
            self.until("document.readyState === 'complete'");
        }
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            if Instant::now() > deadline {
                let shown = self.value("document.body.innerText");
                panic!("this did not come true: {expression}\n{}", shown.as_str().unwrap_or("-"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Where an element is touched: on its first line, once it has come to rest.
    fn place(&mut self, element: &str) -> (Value, Value) {
        self.until(&format!("!!({element})"));
        self.value(&format!("({element}).scrollIntoView({{ block: 'center' }})"));
        let read = format!(
            "(() => {{ const at = ({element}).getClientRects()[0]; \
             return [at.x + Math.min(12, at.width / 2), at.y + at.height / 2]; }})()"
        );
        let mut place = self.value(&read);
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.value(&read);
            if now == place {
                return (now[0].clone(), now[1].clone());
            }
            place = now;
        }
    }

    pub fn tap(&mut self, element: &str) {
        let (x, y) = self.place(element);
        let points = json!({"type": "touchStart", "touchPoints": [{"x": x, "y": y}]});
        self.call("Input.dispatchTouchEvent", points);
        self.call("Input.dispatchTouchEvent", json!({"type": "touchEnd", "touchPoints": []}));
    }

    pub fn click(&mut self, element: &str) {
        let (x, y) = self.place(element);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    pub fn write(&mut self, element: &str, text: &str) {
        self.value(&format!("({element}).focus()"));
        self.call("Input.insertText", json!({"text": text}));
    }

    pub fn press(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        let code = if key == "Enter" { 13 } else { 27 };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event);
        }
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}

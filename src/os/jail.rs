//! A jail for programs that work on untrusted input: which files they may open, which system calls fail,
//! how much memory and processor time they may take.
//!
//! Contract: the jail is entered by a process that becomes the program (`enter`, called by the helper that
//! `helper` starts from the same executable). So no part of the program runs outside it, and its
//! children inherit it. Landlock limits files, TCP and signals; a seccomp filter lets calls fail that
//! would leave the process group, reach the network, look into other processes or limit them, or change rights, owners
//! and times of files. Where the kernel
//! lacks one of the two, the other still holds; `support` says what there is.
//!
//! Deliberately not here: an own root or user namespace. Both need rights that a service does not have.
//!
//! See docs/adr/0111-jail-for-programs.md.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use serde::{Deserialize, Serialize};

use super::parent::die_with;

/// Exit code of a helper that could not start the program.
pub(crate) const NOT_STARTED: u8 = 126;
/// First argument of the helper. It is no command that a person can use.
const HELPER: &str = "__jail";
/// This program, also when its file was replaced or removed since it started.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
/// The newest Landlock interface that is used; older kernels enforce the part they know.
const LANDLOCK: ABI = ABI::V6;
/// Most bytes of one file that a jailed program may write.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Places that every program needs in order to start.
const SYSTEM_READ: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
];
/// Places that a program needs for connections.
const NETWORK_READ: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/ssl",
    "/etc/services",
];
const SYSTEM_WRITE: &[&str] = &["/dev/null"];

/// Calls that always fail. The first two would leave the process group, which the time limit ends.
const DENIED: &[libc::c_long] = &[
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    // Its operations pass by the filter.
    libc::SYS_io_uring_setup,
    // Landlock does not limit these: rights, owners, times and attributes of files.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    // They outlive the program.
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    // Other processes.
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
];
/// Calls that newer kernels have, by their numbers, which are the same on all processors.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
/// Older names of some of them.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[libc::c_long] = &[];
/// Calls that fail for every process but the one that calls, which is named by 0: its first argument.
const OF_ITSELF: &[libc::c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];
/// Calls that fail without the network. Pairs of connected sockets stay: event loops use them.
const DENIED_WITHOUT_NETWORK: &[libc::c_long] = &[libc::SYS_socket];

/// What a program may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jail {
    /// Files and folders it may read and run, beside those of the system.
    pub read: Vec<PathBuf>,
    /// Files and folders it may change.
    pub write: Vec<PathBuf>,
    pub network: bool,
    /// Most address space of each process.
    pub memory_bytes_max: u64,
    /// Most processor time of each process.
    pub cpu_seconds_max: u64,
}

/// What the kernel of this machine enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Support {
    pub files: bool,
    pub calls: bool,
}

static IS_HELPER_HERE: OnceLock<()> = OnceLock::new();

/// Says that this executable answers to the helper's argument. A program that uses the library does not.
pub(crate) fn offer_helper() {
    let _ = IS_HELPER_HERE.set(());
}

/// The command that enters the jail, if there is one, and becomes the program. The program ends with the thread
/// that starts the command. `None` where this executable has no helper.
pub(super) fn helper(jail: Option<&Jail>, program: &OsStr, args: &[OsString]) -> Option<Command> {
    IS_HELPER_HERE.get()?;
    let rules = serde_json::to_string(&jail).ok()?;
    let mut command = Command::new(THIS_PROGRAM);
    let own = std::process::id().to_string();
    command.arg(HELPER).arg(own).arg(rules).arg(program).args(args);
    Some(command)
}

impl Jail {
    fn enter(&self) -> Result<(), String> {
        self.limit().map_err(|error| format!("limit memory and time: {error}"))?;
        self.confine_files().map_err(|error| format!("limit files: {error}"))?;
        self.confine_calls().map_err(|error| format!("limit system calls: {error}"))
    }

    fn limit(&self) -> rustix::io::Result<()> {
        let limits = [
            (Resource::As, self.memory_bytes_max),
            (Resource::Cpu, self.cpu_seconds_max),
            (Resource::Fsize, FILE_BYTES_MAX),
            (Resource::Core, 0),
        ];
        for (resource, most) in limits {
            // A lower limit of the caller stays.
            let most = getrlimit(resource).maximum.map_or(most, |now| now.min(most));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        Ok(())
    }

    fn confine_files(&self) -> Result<RulesetStatus, landlock::RulesetError> {
        let mut read: Vec<PathBuf> = SYSTEM_READ.iter().map(PathBuf::from).collect();
        read.extend(self.read.iter().cloned());
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(LANDLOCK))?
            .scope(Scope::from_all(LANDLOCK))?;
        if self.network {
            read.extend(NETWORK_READ.iter().map(PathBuf::from));
        } else {
            ruleset = ruleset.handle_access(AccessNet::from_all(LANDLOCK))?;
        }
        let write = SYSTEM_WRITE.iter().map(PathBuf::from).chain(self.write.iter().cloned());
        let status = ruleset
            .create()?
            .add_rules(path_beneath_rules(read, AccessFs::from_read(LANDLOCK)))?
            .add_rules(path_beneath_rules(write, AccessFs::from_all(LANDLOCK)))?
            .restrict_self()?;
        Ok(status.ruleset)
    }

    fn confine_calls(&self) -> Result<(), String> {
        // A processor that the filter does not know has no filter; Landlock holds there.
        let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
        let more = if self.network { &[][..] } else { DENIED_WITHOUT_NETWORK };
        let denied_calls = DENIED.iter().chain(DENIED_HERE).chain(more);
        let mut rules: BTreeMap<i64, _> = denied_calls.map(|call| (*call, Vec::new())).collect();
        let other = of_another_process().map_err(|error| error.to_string())?;
        rules.extend(OF_ITSELF.iter().map(|call| (*call, vec![other.clone()])));
        let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)
            .map_err(|error| error.to_string())?;
        let program: BpfProgram = filter.try_into().map_err(|error| format!("{error}"))?;
        match apply_filter(&program) {
            Ok(()) => Ok(()),
            // Kernels without the filter refuse the request itself.
            Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error))
                if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) =>
            {
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The first argument names another process than the one that calls.
fn of_another_process() -> Result<SeccompRule, BackendError> {
    let another = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0)?;
    SeccompRule::new(vec![another])
}

/// The helper: enters the jail and becomes the program. `None` when the arguments ask for something else.
/// It returns an error text only when the program could not be started.
pub(crate) fn become_program(mut arguments: impl Iterator<Item = OsString>) -> Option<String> {
    arguments.next()?;
    if arguments.next()? != HELPER {
        return None;
    }
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse().ok());
    if !parent.is_some_and(die_with) {
        return Some("the program that asked for this one has ended".to_owned());
    }
    let rules = arguments.next().unwrap_or_default();
    let jail: Option<Jail> = match serde_json::from_str(&rules.to_string_lossy()) {
        Ok(jail) => jail,
        Err(error) => return Some(format!("read the rules of the jail: {error}")),
    };
    let program = arguments.next().unwrap_or_default();
    if let Some(Err(error)) = jail.map(|jail| jail.enter()) {
        return Some(error);
    }
    let error = Command::new(&program).args(arguments).exec();
    Some(format!("start {}: {error}", program.to_string_lossy()))
}

/// What this kernel has, without changing this process.
pub(crate) fn support() -> Support {
    let files = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .is_ok_and(|ruleset| ruleset.create().is_ok());
    let calls = std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Seccomp_filters:")));
    let is_known = TargetArch::try_from(std::env::consts::ARCH).is_ok();
    Support { files, calls: calls && is_known }
}

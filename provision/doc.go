// Package provision is the toolkit: it composes the steps of its sub-packages into the tasks of an
// operator: deploy a fleet, restart its daemons, write their bit-maps back. The mage targets call
// its methods. Packages such as release, settings, service and redis define the steps; package
// fleet runs them on many hosts.
//
// Plan and deploy are the same steps. A step.Wish looks at the host, and returns nothing or the change
// that it would make: a line for people, the difference, and what makes the change. A plan only looks.
// A deployment looks, makes the change and looks again; if the wish is not fulfilled then, it has
// failed. So the two cannot disagree, and a second deployment finds nothing to do. A wish that can be
// undone is a step.Undoer. A step.Proof, such as the health check, changes nothing; a plan leaves it
// out if changes before it are pending. What one step adds to another is a type that wraps it; no step
// is altered once it is made.
//
// Programs. A program.Program is all that the toolkit knows about a program: its name, from which
// folders, user, units and variables follow; the roles of the hosts that run it; the Go package that is
// built; how its settings are read; the path of its readiness, and what it is asked after a start.
// Hosts have roles, roles map to programs, and one deployment does all programs in turn. No other
// package knows a program by name (literal_test.go), and a test deploys a second one,
// daemon/testdata/greeter. There is one template of each unit, in systemd/; on a host the release
// itself renders and registers them, so that units are those of the release and not of the laptop.
//
// Locks. A run connects to all of its hosts and locks them before it changes any: flock on
// /run/urifilter-toolkit.lock, held by a command on the host that expects a keepalive every few
// seconds. The lock ends with that command, at the latest 60 s after the last keepalive, and nothing
// has to be cleaned up. A plan takes no lock.
//
// Undo. When a step fails, the steps of that host and phase that had begun to change something are
// undone, last first; also after Ctrl-C, and over a new connection if the old one is lost. A release
// that nobody confirms is taken back by the host itself, by a timer that the confirmation removes.
// What was done is kept in .urifilter/runs, and -resume goes on from there.
//
// The packages stand on each other so: provision (targets), rollout (one program on one host), site
// (what the hosts of a run share), then the steps: release, service, schedule, bitmap, redis, mysql,
// mongodb, pki, settings, environment, apt. Under them fleet runs steps on many hosts, report shows
// them, step is their form, host what a step may do, remote does it over SSH, inventory says which
// hosts there are; secret, diff, yamledit, atomicfile and crontab help. sandbox makes throw-away hosts; hosttest
// and e2e are tests.
//
// remote is our own and not k0sproject/rig (version 2, looked at in 2026), because that one adds
// unknown host keys without a question, opens a broken connection again in the middle of a run, when
// the lock is gone, abandons cancelled commands, and connects without a timeout.
//
// provision does not import the daemon, and is not imported by it. They share configs and systemd, so
// that what the laptop checks and writes is what the daemon reads.
package provision

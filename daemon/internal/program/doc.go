// Package program is the room of the chassis: what each of our programs has, and nothing about
// filters or downloads. The folder itself has no code.
//
//   - Commands: command (exit codes, errors with hints, signals, manual pages), human (numbers and
//     tables for people), terminal (whether there is one; what others wrote is shown and not obeyed).
//   - Service: service (the command that makes a program a service of the machine), lifecycle (what
//     it tells its service manager, bounded stops), logs, probe, repeat (work
//     that is done again and again), memlimit (how much memory the process may have).
//   - Serving: listen (sockets of its own or of systemd), connlimit (how many connections there may
//     be), wrongport, gather, drain (no request is lost at a stop), wrap (what these four have in common),
//     httpserver, which puts them around a handler; access (tokens, scopes, pages of other sites), caller (who is one caller), budget (a
//     bound that many calls share), problemdetail (how callers by HTTP are told what is wrong).
//   - Pages for people: page (layout, languages, log-in, actions; each program has templates of its own).
//   - Calling: tlsdial (TLS to servers, certificates that are renewed), secret (password files).
//
// Begin with command.Run and httpserver.Open.
package program

// Package release installs builds of a program on a host, side by side, and selects the
// current one:
//
//	/opt/NAME/releases/20261121T091500Z-0123456789ab/NAME           the program
//	/opt/NAME/releases/20261121T091500Z-0123456789ab/manifest.json  what it is
//	/opt/NAME/current -> releases/20261121T091500Z-0123456789ab
//
// An installed release never changes, except for the mark in its manifest that
// it was healthy; the link is replaced atomically. Package service starts, stops and
// checks the daemon.
package release

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
)

// Manifest describes a release, in manifest.json.
type Manifest struct {
	// ID is the name of its folder: the time of Commit in UTC, or of the file that was
	// uploaded where it has none, and the first 12 digits of Content.
	ID     string `json:"id"`
	SHA256 string `json:"sha256"` // of the program, hexadecimal
	// Content identifies what went into the program, apart from what was stamped into it: releases
	// with the same are the same. "": SHA256, as for those of earlier versions.
	Content string `json:"content,omitempty"`
	Arch    string `json:"arch"` // amd64 or arm64
	// Version is the program's version output on the host, in one line.
	Version string `json:"version"`
	// Commit is the commit that the program was built from, "" if unknown.
	Commit string `json:"commit,omitempty"`
	// By is who installed it, user@machine.
	By string `json:"by"`
	// Created is when it was installed.
	Created time.Time `json:"created"`
	// Healthy is when it last passed the health check as the current release; nil: never.
	Healthy *time.Time `json:"healthy,omitempty"`
}

// content returns what identifies the release.
func (m Manifest) content() string { return cmp.Or(m.Content, m.SHA256) }

// NewID names the release of a program that was made at a time.
func NewID(at time.Time, content string) string {
	return at.UTC().Format("20060102T150405Z") + "-" + content[:12]
}

// made is the part of an id that is its time, which sorts as text.
func made(id string) string {
	at, _, _ := strings.Cut(id, "-")
	return at
}

// validID reports whether a name is valid for a release's folder.
func validID(id string) bool {
	return regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{12}$`).MatchString(id)
}

// untagged is the version that Go gives to a commit between two tags.
var untagged = regexp.MustCompile(`^(v[0-9.]+-(.*\.)?[0-9]{14}-[0-9a-f]{12}(\+dirty)?|\(devel\)) \((.*)\)$`)

// Short is the version for tables: the tag, or else the commit.
func (m Manifest) Short() string {
	_, text, _ := strings.Cut(m.Version, " ") // the name of the program
	if i := strings.LastIndex(text, " go1."); i > 0 {
		text = text[:i]
	}
	if parts := untagged.FindStringSubmatch(text); parts != nil {
		return parts[4]
	}
	tag, _, _ := strings.Cut(text, " (commit ")
	return tag
}

// parseManifest reads a manifest of the folder id.
func parseManifest(id, text string) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return m, fmt.Errorf("release %s: manifest.json: %w", id, err)
	}
	if m.ID != id || len(m.SHA256) != 64 {
		return m, fmt.Errorf("release %s: manifest.json: it is that of %q", id, m.ID)
	}
	return m, nil
}

func (m Manifest) text() (string, error) {
	data, err := json.Marshal(m)
	return string(data) + "\n", err
}

// Folder is where a host keeps the releases of a program. The zero Folder is not usable; At
// gives one.
type Folder struct{ root, name string }

// At is the folder at root of the program with that name.
func At(root, name string) Folder { return Folder{root: root, name: name} }

// Program is the path of the current release's program.
func (f Folder) Program() string { return path.Join(f.root, "current", f.name) }

// ProgramOf is the path of a release's program.
func (f Folder) ProgramOf(id string) string { return path.Join(f.dir(id), f.name) }

func (f Folder) releases() string        { return path.Join(f.root, "releases") }
func (f Folder) dir(id string) string    { return path.Join(f.releases(), id) }
func (f Folder) current() string         { return path.Join(f.root, "current") }
func (f Folder) staged(id string) string { return path.Join(f.releases(), ".staged-"+id) }

// IDOf returns the release whose program has the path, or "".
func IDOf(path string) string {
	_, rest, _ := strings.Cut(path, "/releases/")
	id, _, _ := strings.Cut(rest, "/")
	if !validID(id) {
		return ""
	}
	return id
}

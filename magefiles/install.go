//go:build mage

package main

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision"
)

// Install sets up hosts one part at a time; deploy does all of it.
type Install mg.Namespace

// All sets up everything that the daemon needs (Redis, MariaDB, archive, user, settings, service), without starting it.
//
//	go tool mage install:all
func (Install) All(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, binary: binary, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.InstallAll(ctx) })
}

// Env creates the user, the folders and the host's own token.
//
//	go tool mage install:env
func (Install) Env(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.InstallEnv(ctx) })
}

// Redis installs Redis on the host with that role: with a password, no eviction, append-only file.
//
//	go tool mage install:redis -dryRun
func (Install) Redis(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.InstallRedis(ctx) })
}

// Mysql installs MariaDB on the host with that role: with a database and a user for filters with store mysql.
//
//	go tool mage install:mysql -dryRun
func (Install) Mysql(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.InstallMySQL(ctx) })
}

// Mongodb installs the archive on the host with that role: MongoDB or FerretDB.
//
//	go tool mage install:mongodb -dryRun
func (Install) Mongodb(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.InstallMongoDB(ctx) })
}

// Settings writes the daemon's settings and tokens without restarting it; settings:push restarts it.
//
//	go tool mage install:settings -dryRun
func (Install) Settings(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.InstallSettings(ctx) })
}

// Service registers the daemon with systemd; a host without a release gets one first.
//
//	go tool mage install:service
func (Install) Service(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	dryRun *bool, // show what would change, and change nothing
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
	json *bool, // write JSON lines
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, dryRun: dryRun, binary: binary, json: json, verbose: v}, func(t *provision.Toolkit) error { return t.InstallService(ctx) })
}

// Bundle creates a folder with packages and program for a site without internet access, with the help of hosts that have access.
//
//	go tool mage install:bundle bundle -hosts=online
func (Install) Bundle(
	ctx context.Context,
	folder string,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	binary *string, // use this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
) error {
	return with(flags{hosts: hosts, inventory: inventory, binary: binary}, func(t *provision.Toolkit) error { return t.CollectBundle(ctx, folder) })
}

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
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
	change *string,
) error {
	return with(change, provision.Options{Binary: valueOr(binary, "")}, func(t *provision.Toolkit) error { return t.InstallAll(ctx) })
}

// Env creates the user, the folders and the host's own token.
//
//	go tool mage install:env
func (Install) Env(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.InstallEnv(ctx) })
}

// Redis installs Redis on the host with that role: with a password, no eviction, append-only file.
//
//	go tool mage install:redis -dryRun
func (Install) Redis(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.InstallRedis(ctx) })
}

// Mysql installs MariaDB on the host with that role: with a database and a user for filters with store mysql.
//
//	go tool mage install:mysql -dryRun
func (Install) Mysql(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.InstallMySQL(ctx) })
}

// Mongodb installs the archive on the host with that role: MongoDB or FerretDB.
//
//	go tool mage install:mongodb -dryRun
func (Install) Mongodb(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.InstallMongoDB(ctx) })
}

// Settings writes the daemon's settings and tokens without restarting it; settings:push restarts it.
//
//	go tool mage install:settings -dryRun
func (Install) Settings(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.InstallSettings(ctx) })
}

// Service registers the daemon with systemd; a host without a release gets one first.
//
//	go tool mage install:service
func (Install) Service(
	ctx context.Context,
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
	change *string,
) error {
	return with(change, provision.Options{Binary: valueOr(binary, "")}, func(t *provision.Toolkit) error { return t.InstallService(ctx) })
}

// Bundle creates a folder with packages and program for a site without internet access, with the help of hosts that have access.
//
//	go tool mage install:bundle bundle -hosts=online
func (Install) Bundle(
	ctx context.Context,
	folder string,
	binary *string, // use this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
	at *string,
) error {
	return with(at, provision.Options{Binary: valueOr(binary, "")}, func(t *provision.Toolkit) error { return t.CollectBundle(ctx, folder) })
}

// Package lab is the room of measurements that help people to choose: what filters will take (sizing),
// hash functions and what they do to a Bloom filter (hashes), false positives computed and measured
// (rates), batches sent to a daemon at a given rate (load), and pictures of all this (plot). The
// folder itself tells how precisely a share is known; docs/laboratory.md is the manual.
//
// It decides nothing for the daemon, and no part of the daemon uses it.
package lab

//go:build !linux

package main

func main() { panic("for Linux hosts") }

mod boot;
mod trap;

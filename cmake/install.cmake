# Headers, libraries, program, pkg-config files and the CMake package. The result may be moved.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pagedkv)

# Static libraries need their third libraries at link time, so they are a set of their own: whoever
# links the shared ones does not need those.
install(TARGETS pkv EXPORT pagedkvTargets)
install(TARGETS pkv_static EXPORT pagedkvStaticTargets)
if(PKV_MODEL)
    install(TARGETS pkv_model EXPORT pagedkvTargets)
    install(TARGETS pkv_model_static EXPORT pagedkvStaticTargets)
    file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(pagedkv PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    set_target_properties(pkv_model PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS pagedkv)
endif()
install(EXPORT pagedkvTargets NAMESPACE pkv:: DESTINATION ${config_dir})
install(EXPORT pagedkvStaticTargets NAMESPACE pkv:: DESTINATION ${config_dir})
install(DIRECTORY include/pkv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_package_config_file(cmake/pagedkvConfig.cmake.in pagedkvConfig.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(pagedkvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pagedkvConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/pagedkvConfigVersion.cmake DESTINATION ${config_dir})

file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(pc_files pagedkv)
if(PKV_MODEL)
    list(APPEND pc_files pagedkv_model)
endif()
foreach(name IN LISTS pc_files)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
